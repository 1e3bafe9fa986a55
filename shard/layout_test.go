package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// spec is so many permits a second.
func spec(permits int64) shard.Spec {
	return shard.Spec{Permits: permits, Window: time.Second, Algorithm: "slidinglog"}
}

// on makes shards named after their nodes: on("a", 10, "b", 20), each at slot 1.
func on(pairs ...any) []shard.Shard {
	var shards []shard.Shard
	for i := 0; i < len(pairs); i += 2 {
		shards = append(shards, shard.Shard{Slot: 1, Node: pairs[i].(string), Share: int64(pairs[i+1].(int))})
	}
	return shards
}

func must(t *testing.T) func(shard.Layout, error) shard.Layout {
	return func(l shard.Layout, err error) shard.Layout {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// show writes a layout as epoch, permits and node:share of each shard, with +burst and <start where
// it has them.
func show(l shard.Layout) string {
	text := fmt.Sprintf("%d: %d,", l.Epoch, l.Permits)
	for _, s := range l.Shards {
		text += fmt.Sprintf(" %s:%d", s.Node, s.Share)
		if s.Burst > 0 {
			text += fmt.Sprintf("+%d", s.Burst)
		}
		if !l.Settled {
			text += fmt.Sprintf("<%d", s.Start)
		}
	}
	return text
}

func ExampleLayout_Change() {
	spec := shard.Spec{Permits: 60, Window: time.Second, Algorithm: "slidinglog"}
	two := []shard.Shard{{Slot: 7, Node: "a", Share: 30}, {Slot: 8199, Node: "b", Share: 30}}
	layout, err := shard.New(nil, 1, spec, two)
	if err != nil {
		fmt.Println(err)
		return
	}
	one := []shard.Shard{{Slot: 7, Node: "a", Share: 60}}
	layout, err = layout.Change(2, spec, one, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	// b still uses 12 of its 30: so a may be raised to 48.
	fmt.Println(layout.Plan([]shard.Observation{
		{Seen: true, Epoch: 2, Start: 30, Share: 30},
		{Seen: true, Epoch: 2, Start: 30, Share: 12},
	}))
	// b is empty: a may have everything.
	fmt.Println(layout.Plan([]shard.Observation{
		{Seen: true, Epoch: 2, Start: 30, Share: 48},
		{Seen: true, Epoch: 2, Start: 30, Share: 0},
	}))
	fmt.Println(len(layout.Settle(0).Shards))
	// Output:
	// {[48 0] false false}
	// {[60 0] false false}
	// 1
}

// What follows a layout lists the shards that leave behind those that come, and what each held, as
// far as that is known. No method changes its receiver.
func TestChange(t *testing.T) {
	old := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	next := must(t)(old.Change(6, spec(36), on("c", 12, "b", 24), 0))
	third := must(t)(next.Change(7, spec(36), on("a", 18, "d", 18), 0))
	bucket := shard.Spec{Permits: 30, Window: time.Second, Algorithm: "bucket", Burst: 60}
	another := must(t)(old.Change(6, bucket, on("a", 10, "b", 20), 0))
	anew := must(t)(old.Outlast(70, old))
	for want, got := range map[string]shard.Layout{
		"5: 30, a:10 b:20":                     old,
		"6: 36, c:12<0 b:24<20 a:0<10":         next,
		"7: 36, a:18<-1 d:18<-1 c:0<-1 b:0<-1": third,
		"7: 36, a:18 d:18":                     third.Settle(0),
		// The shards of the old algorithm leave, whatever place they are at.
		"6: 30, a:10+30<0 b:20+30<0 a:0<10 b:0<20": another,
		"6: 30, a:10+30 b:20+30":                   another.Settle(0),
		"7: 30, a:30<-1 a:0<-1 b:0<-1 b:0<-1":      must(t)(another.Change(7, spec(30), on("a", 30), 0)),
		// Where a record was overtaken, or forgot a layout, nobody knows what any shard has.
		"70: 30, a:10<-1 b:20<-1":        anew,
		"71: 36, c:12<-1 b:24<-1 a:0<-1": must(t)(next.Outlast(71, next)),
		"9: 30, a:10<-1 b:20<-1 d:0<-1":  must(t)(old.Outlast(9, must(t)(shard.New(nil, 3, spec(8), on("a", 4, "d", 4))))),
	} {
		if show(got) != want || got.Validate() != nil {
			t.Errorf("%s, want %s", show(got), want)
		}
	}
	for at, want := range map[shard.Site]int{
		site(1, "a", "bucket"): 0, site(1, "a", "slidinglog"): 2, site(2, "a", "bucket"): -1,
	} {
		if i := another.Index(at); i != want {
			t.Errorf("%+v is at %d, want %d", at, i, want)
		}
	}
	if live := third.Live(); len(live) != 2 || cap(live) != 2 {
		t.Errorf("live: %v, room for %d", live, cap(live))
	}
	// Nothing is free before the old shards gave something up, or before every shard was seen.
	if floors := slices.Concat(another.Plan(nil).Raise, anew.Opening(false)); slices.Max(floors) != 0 {
		t.Errorf("raised to %v while everything may be in use", floors)
	}
}

// TestBurst: each shard has an equal part of the burst.
func TestBurst(t *testing.T) {
	s := spec(30)
	s.Burst = 7
	l := must(t)(shard.New(nil, 1, s, on("a", 10, "b", 10, "c", 10)))
	if got := []int64{l.Shards[0].Burst, l.Shards[1].Burst, l.Shards[2].Burst}; !slices.Equal(got, []int64{3, 2, 2}) {
		t.Error(got)
	}
}

// TestChangeSettled: a change is settled at once only if nothing moves.
func TestChangeSettled(t *testing.T) {
	old := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	unsettled := must(t)(old.Change(6, spec(60), on("a", 20, "b", 40), 0))
	slower, other, revised := spec(30), spec(30), spec(30)
	slower.Window, other.Algorithm, revised.Revision = time.Minute, "tokenbucket", 3
	bursting, off := spec(30), spec(30)
	bursting.Burst, off.Mode = 90, "off"
	for name, c := range map[string]struct {
		from    shard.Layout
		spec    shard.Spec
		shards  []shard.Shard
		settled bool
	}{
		"same":               {old, spec(30), on("a", 10, "b", 20), true},
		"other order":        {old, spec(30), on("b", 20, "a", 10), true},
		"revision":           {old, revised, on("a", 10, "b", 20), true},
		"shares":             {old, spec(30), on("a", 20, "b", 10), false},
		"node":               {old, spec(30), on("a", 10, "c", 20), false},
		"fewer":              {old, spec(10), on("a", 10), false},
		"more":               {old, spec(31), on("a", 10, "b", 20, "c", 1), false},
		"window":             {old, slower, on("a", 10, "b", 20), false},
		"burst":              {old, bursting, on("a", 10, "b", 20), false},
		"mode":               {old, off, on("a", 10, "b", 20), false}, // each shard is told of it
		"algorithm":          {old, other, on("a", 10, "b", 20), false},
		"unsettled and same": {unsettled, spec(60), on("a", 20, "b", 40), false},
	} {
		next := must(t)(c.from.Change(9, c.spec, c.shards, 0))
		if next.Settled != c.settled || next.Spec != c.spec {
			t.Errorf("%s: %+v", name, next)
		}
	}
}

func TestInvalid(t *testing.T) {
	valid := must(t)(must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20))).Change(6, spec(30), on("a", 30), 0))
	family := moved(t)
	keys := func(spoil func(*shard.Keys)) func(*shard.Layout) {
		return func(l *shard.Layout) {
			own := *family.Keys
			own.Before = slices.Clone(own.Before)
			spoil(&own)
			*l = family
			l.Keys = &own
		}
	}
	for name, spoil := range map[string]func(*shard.Layout){
		"epoch 0":             func(l *shard.Layout) { l.Epoch = 0 },
		"epoch 2^53":          func(l *shard.Layout) { l.Epoch = 1 << 53 },
		"no permits":          func(l *shard.Layout) { l.Permits, l.Shards = 0, nil },
		"too many permits":    func(l *shard.Layout) { l.Permits, l.Shards[0].Share = 1e12+1, 1e12+1 },
		"short window":        func(l *shard.Layout) { l.Window = time.Millisecond - 1 },
		"long window":         func(l *shard.Layout) { l.Window = 31*24*time.Hour + 1 },
		"no algorithm":        func(l *shard.Layout) { l.Algorithm = "" },
		"algorithm not UTF-8": func(l *shard.Layout) { l.Algorithm = "\xff" },
		"scope not UTF-8":     func(l *shard.Layout) { l.Scope = "\xff" },
		"revision":            func(l *shard.Layout) { l.Revision = -1 },
		"slot -1":             func(l *shard.Layout) { l.Shards[0].Slot = -1 },
		"slot 16384":          func(l *shard.Layout) { l.Shards[0].Slot = shard.Slots },
		"shard's algorithm":   func(l *shard.Layout) { l.Shards[0].Algorithm = "bucket" },
		"shard without one":   func(l *shard.Layout) { l.Shards[1].Algorithm = "" },
		"burst unshared":      func(l *shard.Layout) { l.Burst = 30 },
		"burst too large":     func(l *shard.Layout) { l.Burst, l.Shards[0].Burst = 30, 31 },
		"burst too small":     func(l *shard.Layout) { l.Burst, l.Shards[0].Burst = 30, 29 },
		"burst of nothing":    func(l *shard.Layout) { l.Shards[0].Burst = 30 },
		"negative burst":      func(l *shard.Layout) { l.Burst, l.Shards[0].Burst = -1, -1 },
		"leaving burst":       func(l *shard.Layout) { l.Burst, l.Shards[0].Burst, l.Shards[1].Burst = 30, 29, 1 },
		"lasts, negative":     func(l *shard.Layout) { l.Lasts = -1 },
		"lasts too long":      func(l *shard.Layout) { l.Lasts = 1<<63 - 1 },
		"lasts alone":         func(l *shard.Layout) { l.Lasts = time.Hour },
		"left alone":          func(l *shard.Layout) { l.Left = time.Hour },
		"left too long":       func(l *shard.Layout) { l.Lasts, l.Left = time.Hour, 1<<63-1 },
		"left, negative":      func(l *shard.Layout) { l.Lasts, l.Left = time.Hour, -1 },
		"fence, no shards":    func(l *shard.Layout) { l.Fence = &shard.Fence{} },
		"fence, no name":      func(l *shard.Layout) { l.Fence = &shard.Fence{Lost: []string{""}} },
		"no node":             func(l *shard.Layout) { l.Shards[0].Node = "" },
		"node not UTF-8":      func(l *shard.Layout) { l.Shards[0].Node = "a\xff" },
		"negative share":      func(l *shard.Layout) { l.Shards[1].Share, l.Shards[0].Share = -1, 31 },
		"sum too small":       func(l *shard.Layout) { l.Shards[0].Share-- },
		"sum too large":       func(l *shard.Layout) { l.Shards[0].Share++ },
		"sum overflows":       func(l *shard.Layout) { l.Shards[0].Share = 1<<63 - 1 },
		"sum wraps around": func(l *shard.Layout) {
			l.Shards = on("a", 1, "b", 1, "c", 32)
			l.Shards[0].Share, l.Shards[1].Share = 1<<63-1, 1<<63-1
		},
		"start -2":        func(l *shard.Layout) { l.Shards[1].Start = -2 },
		"start too large": func(l *shard.Layout) { l.Shards[1].Start = 1e12 + 1 },
		"twice":           func(l *shard.Layout) { l.Shards[1].Node = "a" },
		"leaving first":   func(l *shard.Layout) { slices.Reverse(l.Shards) },
		"settled leaving": func(l *shard.Layout) { l.Settled, l.Shards[0].Start, l.Shards[1].Start = true, 0, 0 },
		"settled start":   func(l *shard.Layout) { l.Settled, l.Shards = true, l.Shards[:1] },
		// What was before is in order: what was left first was left for longest.
		"keys left, negative":                         keys(func(k *shard.Keys) { k.Before[1].LeftFor = -1 }),
		"keys left too long":                          keys(func(k *shard.Keys) { k.Before[0].LeftFor = 1<<63 - 1 }),
		"keys out of order":                           keys(func(k *shard.Keys) { slices.Reverse(k.Before) }),
		"keys' algorithm":                             keys(func(k *shard.Keys) { k.Before[0].Algorithm = "" }),
		"keys on no nodes":                            keys(func(k *shard.Keys) { k.Before[0].Nodes = nil }),
		"keys' incarnations":                          keys(func(k *shard.Keys) { k.Nodes = []shard.Node{{Name: "a", Weight: 1, Incarnation: "1"}} }),
		"grants of the limit itself count for longer": keys(func(k *shard.Keys) { k.Longest = time.Second }),
		"keys left too often": keys(func(k *shard.Keys) {
			for len(k.Before) <= 128 {
				k.Before = append(k.Before, k.Before[1])
			}
		}),
	} {
		l := valid
		l.Shards = slices.Clone(valid.Shards)
		spoil(&l)
		if err := l.Validate(); !errors.Is(err, shard.ErrInvalidLayout) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.MarshalJSON(); !errors.Is(err, shard.ErrInvalidLayout) {
			t.Errorf("%s is stored: %v", name, err)
		}
	}
	for range 4 { // however long it was left
		if family = family.Settle(1<<63 - 1); valid.Validate() != nil || family.Validate() != nil {
			t.Fatalf("%+v, %+v", valid, family.Keys)
		}
	}
}

func TestInvalidChange(t *testing.T) {
	l := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	for name, try := range map[string]func() (shard.Layout, error){
		"same epoch":  func() (shard.Layout, error) { return l.Change(5, spec(30), on("a", 30), 0) },
		"wrong sum":   func() (shard.Layout, error) { return l.Change(6, spec(30), on("a", 29), 0) },
		"twice":       func() (shard.Layout, error) { return l.Change(6, spec(30), on("a", 10, "a", 20), 0) },
		"same, twice": func() (shard.Layout, error) { return l.Change(6, spec(20), on("a", 10, "a", 10), 0) },
		"none":        func() (shard.Layout, error) { return l.Change(6, spec(30), nil, 0) },
		"new, leaves": func() (shard.Layout, error) { return shard.New(nil, 1, spec(30), on("a", 30, "b", 0)) },
		"new, none":   func() (shard.Layout, error) { return shard.New(nil, 1, spec(30), nil) },
		"new, epoch":  func() (shard.Layout, error) { return shard.New(nil, 0, spec(30), on("a", 30)) },
		"tiny burst": func() (shard.Layout, error) {
			return l.Change(6, shard.Spec{Permits: 30, Window: 1e9, Algorithm: "a", Burst: 1}, on("a", 10, "b", 20), 0)
		},
		"anew": func() (shard.Layout, error) { return l.Outlast(5, l) },
	} {
		if got, err := try(); !errors.Is(err, shard.ErrInvalidLayout) || got.Epoch != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func site(slot int, node, algorithm string) shard.Site {
	return shard.Site{Location: shard.Location{Slot: slot, Node: node}, Algorithm: algorithm}
}

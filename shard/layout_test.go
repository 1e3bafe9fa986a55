package shard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// show writes the shards as node:share or node:share<start.
func show(l shard.Layout) string {
	var b strings.Builder
	for _, s := range l.Shards {
		fmt.Fprintf(&b, "%s:%d", s.Node, s.Share)
		if !l.Settled {
			fmt.Fprintf(&b, "<%d", s.Start)
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
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

func TestChange(t *testing.T) {
	old := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	if !old.Settled || show(old) != "a:10 b:20" {
		t.Fatalf("new layout: %+v", old)
	}
	next := must(t)(old.Change(6, spec(36), on("c", 12, "b", 24), 0))
	if got := show(next); next.Settled || got != "c:12<0 b:24<20 a:0<10" {
		t.Errorf("changed: %s", got)
	}
	third := must(t)(next.Change(7, spec(36), on("a", 18, "d", 18), 0))
	if got := show(third); third.Settled || got != "a:18<-1 d:18<-1 c:0<-1 b:0<-1" {
		t.Errorf("changed while unsettled: %s", got)
	}
	settled := third.Settle(0)
	if got := show(settled); !settled.Settled || got != "a:18 d:18" || settled.Epoch != 7 || settled.Validate() != nil {
		t.Errorf("settled: %+v", settled)
	}
	if show(third) != "a:18<-1 d:18<-1 c:0<-1 b:0<-1" || show(old) != "a:10 b:20" {
		t.Error("a method changed its receiver")
	}
	if i, j := third.Index(site(1, "b", "slidinglog")), third.Index(site(2, "b", "slidinglog")); i != 3 || j != -1 {
		t.Errorf("indices %d, %d", i, j)
	}
	if live := third.Live(); len(live) != 2 || cap(live) != 2 {
		t.Errorf("live: %v, room for %d", live, cap(live))
	}
}

// TestChangeAlgorithm: the shards of the old algorithm leave, whatever place they are at.
func TestChangeAlgorithm(t *testing.T) {
	old := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	bucket := spec(30)
	bucket.Algorithm, bucket.Burst = "bucket", 60
	next := must(t)(old.Change(6, bucket, on("a", 10, "b", 20), 0))
	if got := show(next); next.Settled || got != "a:10<0 b:20<0 a:0<10 b:0<20" {
		t.Errorf("changed: %s", got)
	}
	if next.Shards[0].Algorithm != "bucket" || next.Shards[2].Algorithm != "slidinglog" || next.Shards[1].Burst != 40 ||
		next.Shards[3].Burst != 0 {
		t.Errorf("changed: %+v", next.Shards)
	}
	if i, j := next.Index(site(1, "a", "bucket")), next.Index(site(1, "a", "slidinglog")); i != 0 || j != 2 {
		t.Errorf("at %d and %d", i, j)
	}
	// Nothing is free for the new shards before the old ones gave something up.
	if step := next.Plan(nil); slices.Max(step.Raise) != 0 {
		t.Errorf("raised to %v while everything may be in use", step.Raise)
	}
	back := must(t)(next.Change(7, spec(30), on("a", 30), 0))
	if got := show(back); got != "a:30<-1 a:0<-1 b:0<-1 b:0<-1" || back.Shards[0].Algorithm != "slidinglog" {
		t.Errorf("back again: %s", got)
	}
	if settled := next.Settle(0); show(settled) != "a:10 b:20" || settled.Validate() != nil {
		t.Errorf("settled: %+v", settled)
	}
}

// TestBurst: the parts of a burst are in proportion to the shares, none is 0, and they sum to it
// exactly.
func TestBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares := rapid.SliceOfN(rapid.Int64Range(1, rapid.SampledFrom([]int64{3, 1000, 1e9}).Draw(t, "greatest")), 1,
			40).Draw(t, "shares")
		s := spec(0)
		var shards []shard.Shard
		for i, share := range shares {
			shards = append(shards, shard.Shard{Slot: i, Node: "a", Share: share})
			s.Permits += share
		}
		s.Burst = rapid.Int64Range(int64(len(shares)),
			rapid.SampledFrom([]int64{int64(len(shares)), 5000, shard.MaxPermits}).Draw(t, "most")).Draw(t, "burst")
		l, err := shard.New(nil, 1, s, shards)
		if err != nil {
			t.Fatal(err)
		}
		poor := int64(0)
		for _, x := range l.Shards {
			if x.Burst == 1 {
				poor++
			}
		}
		for _, x := range l.Shards {
			exact := float64(s.Burst) * float64(x.Share) / float64(s.Permits)
			if got := float64(x.Burst); got > max(1, exact+1) || got < max(1, exact-1-float64(poor)) {
				t.Fatalf("share %d of %d has %d of %d, exactly %f", x.Share, s.Permits, x.Burst, s.Burst, exact)
			}
		}
	})
	s := spec(30)
	s.Burst = 1
	if _, err := shard.New(nil, 1, s, on("a", 10, "b", 20)); !errors.Is(err, shard.ErrInvalidLayout) {
		t.Errorf("a burst of 1 for two shards: %v", err)
	}
}

// TestAnew: the same limit goes on, but nothing is raised before every shard was seen.
func TestAnew(t *testing.T) {
	l := must(t)(shard.New(nil, 50, spec(30), on("a", 10, "b", 20)))
	next := must(t)(l.Anew(70, 0))
	if got := show(next); next.Settled || got != "a:10<-1 b:20<-1" || next.Spec != l.Spec || next.Epoch != 70 {
		t.Errorf("%+v", next)
	}
	moving := must(t)(l.Change(51, spec(40), on("c", 40), 0))
	if got := show(must(t)(moving.Anew(70, 0))); got != "c:40<-1 a:0<-1 b:0<-1" {
		t.Errorf("on its way: %s", got)
	}
	for j, floor := range next.Opening(false) {
		if floor != 0 {
			t.Errorf("%+v may have %d before it was seen", next.Shards[j], floor)
		}
	}
	if _, err := l.Anew(50, 0); !errors.Is(err, shard.ErrInvalidLayout) {
		t.Errorf("the same epoch: %v", err)
	}
}

// TestOutlast: who goes on where a record forgot lists the shards of both, and knows of none what
// it has.
func TestOutlast(t *testing.T) {
	found := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	l := must(t)(shard.New(nil, 3, spec(40), on("a", 20, "c", 20)))
	next := must(t)(l.Outlast(9, found))
	if got := show(next); next.Settled || next.Permits != 40 || got != "a:20<-1 c:20<-1 b:0<-1" {
		t.Errorf("%+v", next)
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
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
}

func TestInvalidChange(t *testing.T) {
	l := must(t)(shard.New(nil, 5, spec(30), on("a", 10, "b", 20)))
	for name, try := range map[string]func() (shard.Layout, error){
		"same epoch":  func() (shard.Layout, error) { return l.Change(5, spec(30), on("a", 30), 0) },
		"no share":    func() (shard.Layout, error) { return l.Change(6, spec(30), on("a", 30, "c", 0), 0) },
		"wrong sum":   func() (shard.Layout, error) { return l.Change(6, spec(30), on("a", 29), 0) },
		"twice":       func() (shard.Layout, error) { return l.Change(6, spec(30), on("a", 10, "a", 20), 0) },
		"same, twice": func() (shard.Layout, error) { return l.Change(6, spec(20), on("a", 10, "a", 10), 0) },
		"none":        func() (shard.Layout, error) { return l.Change(6, spec(30), nil, 0) },
		"new, leaves": func() (shard.Layout, error) { return shard.New(nil, 1, spec(30), on("a", 30, "b", 0)) },
		"new, none":   func() (shard.Layout, error) { return shard.New(nil, 1, spec(30), nil) },
		"new, epoch":  func() (shard.Layout, error) { return shard.New(nil, 0, spec(30), on("a", 30)) },
		"no family":   func() (shard.Layout, error) { return l.Rearrange(6, someNodes(1), 0) },
		"no pasts":    func() (shard.Layout, error) { return l.Forget(6, 0, 0) },
		"no key":      func() (shard.Layout, error) { return l.ForKey("k", shard.Terms{}) },
	} {
		if got, err := try(); !errors.Is(err, shard.ErrInvalidLayout) || got.Epoch != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func site(slot int, node, algorithm string) shard.Site {
	return shard.Site{Location: shard.Location{Slot: slot, Node: node}, Algorithm: algorithm}
}

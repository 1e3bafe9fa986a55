package shard_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/shard"
)

// keeper is a place that keeps a record. Its clock is minutes off all the time, up to 1 % fast or
// slow, and steps.
type keeper struct {
	skew     time.Duration
	rate     float64
	accepted int64         // number of the record that it keeps
	at       time.Duration // since when, by its clock
}

func (k *keeper) now(true time.Duration) time.Duration {
	return k.skew + time.Duration(float64(true)*k.rate)
}

// keepers is a majority that keeps one layout, and what is true of all that it ever kept.
type keepers struct {
	now     time.Duration
	places  []keeper
	written int64
	layout  shard.Layout
	granted []granted
	left    []left
}

// granted is what a layout let through, and until when it may be in a window of a slow clock.
type granted struct{ lasts, until time.Duration }

// left is an arrangement that was left at a time.
type left struct {
	past shard.Past
	at   time.Duration
}

const (
	after     = 30 * time.Minute // so long something may be held where keys were
	goesOnFor = 15 * time.Second // a process that does not know of the next layout yet
)

func drawKeepers(t *rapid.T) *keepers {
	w := &keepers{places: make([]keeper, rapid.SampledFrom([]int{1, 3, 5}).Draw(t, "places"))}
	for i := range w.places {
		w.places[i] = keeper{rate: rapid.Float64Range(.99, 1.01).Draw(t, "rate"),
			skew: time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "skew"))}
	}
	l, err := shard.NewFamily(nil, 1, drawSpec(t), on("record", 10), someNodes(2))
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, l)
	return w
}

func drawSpec(t *rapid.T) shard.Spec {
	return shard.Spec{Permits: 10, Algorithm: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "algorithm"),
		Window: time.Duration(rapid.Int64Range(int64(shard.MinWindow), int64(time.Hour)).Draw(t, "window"))}
}

// write has a majority keep a layout. Some of the others follow later.
func (w *keepers) write(t *rapid.T, next shard.Layout) {
	if old := w.layout; old.Epoch > 0 {
		lasts := old.Spec.Lasts()
		w.granted = append(w.granted, granted{lasts, w.now + goesOnFor + lasts + lasts/100})
		was := keysOf(old)
		if !sameKeys(was, keysOf(next)) {
			w.left = slices.DeleteFunc(w.left, func(l left) bool { return sameKeys(l.past, was) })
			w.left = append(w.left, left{was, w.now})
		}
	}
	w.layout, w.written = next, w.written+1
	who := rapid.Permutation(w.every()).Draw(t, "who takes it")
	for _, i := range who[:rapid.IntRange(majority.Majority(len(who)), len(who)).Draw(t, "how many")] {
		w.take(i)
	}
	w.check(t)
}

func (w *keepers) every() (all []int) {
	for i := range w.places {
		all = append(all, i)
	}
	return all
}

// take has a place keep the layout in force.
func (w *keepers) take(i int) {
	if p := &w.places[i]; p.accepted != w.written {
		p.accepted, p.at = w.written, p.now(w.now)
	}
}

// step lets the clock of a place step. Those that step ahead are fewer than a majority: one that
// steps back only makes what is held shorter.
func (w *keepers) step(i int, by time.Duration) {
	if by > 0 && i >= len(w.places)/2 {
		by = -by
	}
	w.places[i].skew += by
}

// held is for how long the layout has been held, as somebody learns who hears of some places.
func (w *keepers) held(t *rapid.T) time.Duration {
	answers := make([]*majority.Answer, len(w.places))
	who := rapid.Permutation(w.every()).Draw(t, "who answers")
	for n, i := range who {
		p := w.places[i]
		at := majority.Ballot{Round: p.accepted}
		answers[i] = &majority.Answer{OK: true, Votes: true, Promised: at, Accepted: at, Age: max(0, p.now(w.now)-p.at)}
		if got, v := majority.Confirm(answers); v == majority.Confirmed &&
			(n+1 == len(who) || rapid.Bool().Draw(t, "enough")) {
			return got.Held
		}
	}
	t.Fatal("nobody knows the layout")
	return 0
}

func keysOf(l shard.Layout) shard.Past {
	return shard.Past{Arrangement: l.Keys.Arrangement, Algorithm: l.Algorithm}
}

func sameKeys(p, q shard.Past) bool {
	return p.Algorithm == q.Algorithm && slices.Equal(p.Nodes, q.Nodes)
}

// check is what must hold whenever a layout was written, and at every time after.
func (w *keepers) check(t *rapid.T) {
	l := w.layout
	for _, g := range w.granted {
		if counts := max(l.Lasts, l.Spec.Lasts()); w.now < g.until && counts < g.lasts {
			t.Fatalf("after %v, %v are counted; grants of %v matter until %v", w.now, counts, g.lasts, g.until)
		}
	}
	for _, was := range w.left {
		i := slices.IndexFunc(l.Keys.Before, func(p shard.Past) bool { return sameKeys(p, was.past) })
		if i < 0 && w.now < was.at+after && !sameKeys(was.past, keysOf(l)) {
			t.Fatalf("after %v it is forgotten that %+v was left at %v", w.now, was.past, was.at)
		}
		if i >= 0 && l.Keys.Before[i].LeftFor > w.now-was.at {
			t.Fatalf("after %v %+v was left at %v", w.now, l.Keys.Before[i], was.at)
		}
	}
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
}

// drawSuccessor returns some successor of a layout, or false.
func drawSuccessor(t *rapid.T, l shard.Layout, held time.Duration) (shard.Layout, bool) {
	var next shard.Layout
	var err error
	epoch := l.Epoch + rapid.Int64Range(1, 1e15).Draw(t, "epochs are no times")
	switch rapid.IntRange(0, 4).Draw(t, "successor") {
	case 0:
		next, err = l.Change(epoch, drawSpec(t), on("record", 10), held)
	case 1:
		next, err = l.Rearrange(epoch, someNodes(rapid.IntRange(1, 4).Draw(t, "nodes")), held)
	case 2:
		next, err = l.Anew(epoch, held)
	case 3:
		next, err = l.Settle(held), nil
	case 4:
		if !l.Forgettable(held, after) {
			return l, false
		}
		next, err = l.Forget(epoch, held, after)
	}
	if err != nil {
		t.Fatal(err)
	}
	return next, true
}

// Whatever the clocks of the places do, what was granted is counted, and where keys were is known,
// until it has surely left the window; and some time after, no more.
func TestWhatMayMatterIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawKeepers(t)
		pass := func() {
			w.now += time.Duration(rapid.Int64Range(0, int64(rapid.SampledFrom([]time.Duration{time.Second, time.Minute,
				time.Hour}).Draw(t, "about"))).Draw(t, "passes"))
			w.check(t)
		}
		for range rapid.IntRange(1, 30).Draw(t, "events") {
			switch i := rapid.IntRange(0, len(w.places)-1).Draw(t, "place"); rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				pass()
			case 1:
				w.step(i, time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "steps by")))
			case 2:
				w.take(i)
			case 3:
				next, ok := drawSuccessor(t, w.layout, w.held(t))
				if pass(); ok { // it takes a while to write it
					w.write(t, next)
				}
			}
		}
		w.write(t, w.layout.Settle(w.held(t)))
		w.now += 4 * time.Hour
		held := w.held(t)
		if w.layout.Keys.Moving() {
			if !w.layout.Forgettable(held, after) {
				t.Fatalf("four hours after %+v", w.layout.Keys)
			}
			next, err := w.layout.Forget(w.layout.Epoch+1, held, after)
			if err != nil || next.Keys.Moving() {
				t.Fatalf("%+v, %v", next.Keys, err)
			}
		}
		if next := w.layout.Settle(held); next.Lasts != 0 || next.Left != 0 {
			t.Fatalf("long after %v are counted for %v", next.Lasts, next.Left)
		}
	})
}

// A layout that is written anew in between, settled or not, counts no longer for it.
func TestWhatIsLeftIsLeftOnce(t *testing.T) {
	long := spec(10)
	long.Window = time.Hour
	l := must(t)(must(t)(shard.New(nil, 1, long, on("a", 10))).Change(2, spec(10), on("b", 10), time.Minute))
	want := 2*time.Hour + 72*time.Second + 16*time.Second
	for i := range int64(20) {
		if l.Lasts != 2*time.Hour || l.Left != want || l.GrantsLast() != 2*time.Hour {
			t.Fatalf("%d: %v for %v, want %v", i, l.Lasts, l.Left, want)
		}
		switch want -= 297 * time.Second; i % 3 {
		case 0:
			l = l.Settle(300 * time.Second)
		case 1:
			l = must(t)(l.Change(l.Epoch+1, spec(10+i), on("c", 10+int(i)), 300*time.Second))
		case 2:
			l = must(t)(l.Anew(l.Epoch+1, 300*time.Second))
		}
	}
	if l = l.Settle(want * 100 / 98); l.Lasts != 0 || l.Left != 0 || l.GrantsLast() != 2*time.Second {
		t.Errorf("%v for %v", l.Lasts, l.Left)
	}
}

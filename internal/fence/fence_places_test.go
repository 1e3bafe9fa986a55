package fence

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
)

// A majority is enough, and it is not waited for the rest.
func TestAPlaceThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		f := w.process(t)
		if err := f.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, late := range []time.Duration{5 * time.Millisecond, 5 * time.Millisecond, time.Second} {
			w.late[i].Store(int64(late))
		}
		for i := range 6 {
			time.Sleep(confirmFor) // calls come so seldom that each has to confirm what is known
			if i%2 == 0 {
				f.Refresh() // in the background, which waits for all
				synctest.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			began := time.Now()
			if err := f.Confirm(ctx); err != nil || time.Since(began) > 10*time.Millisecond {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			cancel()
		}
		for i := range w.late {
			w.late[i].Store(0)
		}
		time.Sleep(2 * time.Second)
	})
}

// A place that forgot is restored although it answers after the others. Then another one may be
// lost.
func TestABlankPlaceThatAnswersLastIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		f := w.process(t)
		if err := f.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.late[2].Store(int64(20 * time.Millisecond))
		w.servers[2].FlushAll()
		for range 60 {
			f.Refresh()
			time.Sleep(time.Second)
		}
		w.down[0].Store(true)
		time.Sleep(confirmFor)
		if err := f.Confirm(t.Context()); err != nil {
			t.Error(err)
		}
		w.late[2].Store(0)
		time.Sleep(2 * time.Second)
	})
}

// A membership that begins anew gives no life that was, although who begins it knows of none.
func TestNoLifeComesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		a := w.process(t)
		if err := a.Confirm(t.Context()); err != nil {
			t.Fatal(err)
		}
		life := a.Life("n3")
		w.down[3].Store(true)
		a.calls(t.Context(), 20*time.Second)
		if !a.Out("n3") {
			t.Fatal("it is in")
		}
		for _, s := range w.servers {
			s.FlushAll()
		}
		w.down[3].Store(false)
		b := w.process(t)
		if err := b.Confirm(t.Context()); err != nil || b.Generation() <= a.Generation() || b.Life("n3") == life {
			t.Errorf("generation %d after %d, life %q after %q, %v", b.Generation(), a.Generation(), b.Life("n3"), life,
				err)
		}
	})
}

// A membership that no limit is under any more is told of no longer, and makes room for others.
func TestMembershipsThatNobodyUsesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		f := w.process(t)
		all := NewFences(f.env)
		used := all.Of(places)
		used.calls(t.Context(), time.Second)
		w.down[3].Store(true)
		used.calls(t.Context(), 5*time.Second)
		if !all.Nodes()["n3"] {
			t.Fatalf("%v", all.Nodes())
		}
		if time.Sleep(2 * idleAfter); len(all.Nodes()) > 0 {
			t.Errorf("%v long after the last look", all.Nodes())
		}
		for i := range 2 * mostFences {
			one := all.Of([]string{"n0", "n1", fmt.Sprint("other ", i)})
			if (one == nil) != (i >= mostFences) {
				t.Fatalf("membership %d: %v", i, one)
			}
			if one != nil {
				one.Refresh()
			}
		}
		time.Sleep(time.Second)
	})
}

func TestFewLimitsFollowTheirNodesAtATime(t *testing.T) {
	all := NewFences(&Env{})
	for range movesAtOnce {
		if !all.Take(t.Context()) {
			t.Fatal("no room")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if all.Take(ctx) {
		t.Error("one more than there may be")
	}
	all.Done()
	if !all.Take(t.Context()) {
		t.Error("no room after one was done")
	}
}

// For how long a membership was held is told only of the one that was found, not of one that this
// process knows to be later.
func TestAMembershipThatWasNotFoundWasNotHeld(t *testing.T) {
	m, err := majority.NewMembership(7, places, places...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	found := majority.Found{Exists: true, Value: text, Held: time.Hour}
	if got := heldIf(m, found); got != time.Hour {
		t.Errorf("the one that was found: %v", got)
	}
	if got := heldIf(m.Outlast(), found); got != 0 {
		t.Errorf("another one: %v", got)
	}
}

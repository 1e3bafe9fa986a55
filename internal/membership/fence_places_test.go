package membership

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/record"
)

// A majority is enough, and it is not waited for the rest.
func TestAPlaceThatDoesNotAnswerHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		f := w.process(t)
		if err := f.ConfirmSince(t.Context(), 0); err != nil {
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
			if err := f.ConfirmSince(ctx, 0); err != nil || time.Since(began) > 10*time.Millisecond {
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
		if err := f.ConfirmSince(t.Context(), 0); err != nil {
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
		if err := f.ConfirmSince(t.Context(), 0); err != nil {
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
		if err := a.ConfirmSince(t.Context(), 0); err != nil {
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
		if err := b.ConfirmSince(t.Context(), 0); err != nil || b.Generation() <= a.Generation() ||
			b.Life("n3") == life {
			t.Errorf("generation %d after %d, life %q after %q, %v", b.Generation(), a.Generation(), b.Life("n3"), life,
				err)
		}
	})
}

// A membership that no limit is under any more is told of no longer.
func TestAMembershipThatNobodyUsesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown()
		f := w.process(t)
		f.calls(t.Context(), time.Second)
		w.down[3].Store(true)
		f.calls(t.Context(), 5*time.Second)
		if !f.Nodes()["n3"] {
			t.Fatalf("%v", f.Nodes())
		}
		if time.Sleep(confirmFor + time.Second); len(f.Nodes()) > 0 {
			t.Errorf("%v long after the last look", f.Nodes())
		}
	})
}

// For how long a membership was held is told only of the one that was found, not of one that this
// process knows to be later.
func TestAMembershipThatWasNotFoundWasNotHeld(t *testing.T) {
	m, err := majority.NewMembership(7, places...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, found := newTown().process(t), record.Reading{Exists: true, Value: text, Held: time.Hour}
	if got, held, err := f.begin(found); err != nil || got.Generation != 7 || held != time.Hour {
		t.Errorf("the one that was found: %+v, %v, %v", got, held, err)
	}
	f.known.Store(&knowledge{membership: m.Outlast()})
	if got, held, err := f.begin(found); err != nil || got.Generation != 9 || held != 0 {
		t.Errorf("another one: %+v, %v, %v", got, held, err)
	}
}

package membership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/majority"
	"github.com/shardlimit/shardlimit/internal/record"
)

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

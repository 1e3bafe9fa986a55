package lane

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A queue in which something always waits takes no more room than what waits.
func TestAQueueThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	l := grounded(t)
	o := &outbox{env: l.env, part: whole, flying: maxFlights} // all flights are under way
	o.add(l, 1)
	for range 100_000 {
		o.add(l, 1)
		if o.pop(&flight{}) == nil {
			t.Fatal("empty")
		}
	}
	if len(o.waiting)-o.gone != 1 || cap(o.waiting) > 64 {
		t.Errorf("%d wait, with room for %d", len(o.waiting)-o.gone, cap(o.waiting))
	}
}

// Who comes while what waits is more than can be sent in time is refused at once, but not who can
// go with what waits already. When the line is shorter, calls are taken again.
func TestACallThatCannotBeSentInTimeIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		o := l.outbox()
		o.flying = maxFlights // nothing departs
		o.add(l, l.env.Clock.Now())
		first := l.call(t.Context(), 1, false)
		time.Sleep(l.env.CallTimeout/2 + time.Millisecond)
		with := l.call(t.Context(), 1, false)
		limit := &quietLimit{} // of another shard of the node
		other := (&Lane{}).Lead(l.env, l.Way, limit, "other", l.Node, &Terms{})
		other.away = 1
		limit.own = NewSeat(&Member{ID: "p", Weight: 1000}, other)
		if late := other.call(t.Context(), 1, false); !errors.Is(late.err, ErrOverloaded) || other.Waiting.Load() != 0 {
			t.Errorf("%+v, %d wait", late, other.Waiting.Load())
		}
		if b := l.serve(9); b == nil {
			t.Fatal("nothing departs")
		}
		synctest.Wait()
		if first.Granted != 1 || with.Granted != 1 {
			t.Errorf("%+v, %+v", first, with)
		}
		o.pop(&flight{})
		again := other.call(t.Context(), 1, false)
		other.serve(9)
		synctest.Wait()
		if again.err != nil || again.Granted != 1 {
			t.Errorf("after that: %+v", again)
		}
	})
}

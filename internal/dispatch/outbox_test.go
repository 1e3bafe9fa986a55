package dispatch

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// A queue in which something always waits takes no more room than what waits.
func TestAQueueThatIsNeverEmptyDoesNotGrow(t *testing.T) {
	l := grounded(t)
	o := &outbox{env: l.env, part: whole, flying: maxFlights, capacity: capacity{most: maxLoad}} // all flights are under way
	o.add(waiting{lane: l, since: 1})
	for range 100_000 {
		o.add(waiting{lane: l, since: 1})
		if next, _ := o.pop(&flight{}, l.env.Clock.Now()); next.lane == nil {
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
		o.add(waiting{lane: l, since: l.env.Clock.Now()})
		first := l.call(t.Context(), 1, false)
		time.Sleep(l.env.CallTimeout/2 + time.Millisecond)
		o.popped.Store(l.env.Clock.Now()) // others leave all the time
		with := l.call(t.Context(), 1, false)
		limit := &quietLimit{} // of another shard of the node
		other := (&Lane{}).Lead(l.env, l.Way, limit, script.ShardRef{}, l.Node, &Terms{})
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
		o.pop(&flight{}, l.env.Clock.Now())
		again := other.call(t.Context(), 1, false)
		other.serve(9)
		synctest.Wait()
		if again.err != nil || again.Granted != 1 {
			t.Errorf("after that: %+v", again)
		}
	})
}

// While more comes than can be served for long, and not only after a burst, a line is too long if
// it would take more than a quarter of the call timeout, though its first has not waited for long.
func TestALineThatCannotBeServedSoonIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quarter = 3 * maxLoad // leave the line in a quarter of the call timeout
		l := grounded(t)
		e, o := l.env, l.outbox()
		o.flying = maxFlights // what leaves the line leaves by the test
		add := func(n int) {
			for range n {
				o.add(waiting{lane: l, since: e.Clock.Now()})
			}
		}
		leave := func(n int) {
			for range n {
				o.pop(&flight{}, e.Clock.Now())
			}
		}
		pass := func() {
			time.Sleep(e.CallTimeout / 4)
			add(quarter)
			leave(quarter)
		}
		overload := func() {
			for range 5 {
				o.sheds(e.Clock.Now())
				pass()
			}
			o.sheds(e.Clock.Now())
		}
		add(1) // the line is never empty
		for range 4 {
			o.sheds(e.Clock.Now())
			pass()
		}
		add(10 * quarter)
		if o.overdue(e.Clock.Now()) {
			t.Error("calls were shed for no longer than a call timeout, and the line is too long")
		}
		leave(10 * quarter)
		overload()
		add(quarter - 1)
		if o.overdue(e.Clock.Now()) {
			t.Errorf("%d wait, and the line is too long", o.line.Load())
		}
		add(1)
		if !o.overdue(e.Clock.Now()) {
			t.Errorf("%d wait, and the line is not too long", o.line.Load())
		}
		leave(quarter + 1)
		time.Sleep(e.CallTimeout / 8)
		o.sheds(e.Clock.Now())
		add(10 * quarter)
		if o.overdue(e.Clock.Now()) {
			t.Error("the line was empty for a while, and is too long")
		}
		leave(10*quarter - 1)
		overload()
		time.Sleep(e.CallTimeout / 3) // nobody is shed
		leave(1)
		add(1)
		time.Sleep(e.CallTimeout / 3)
		leave(1)
		add(1)
		time.Sleep(e.CallTimeout / 2)
		leave(1)
		add(10 * quarter)
		if o.overdue(e.Clock.Now()) {
			t.Error("long after that the line is too long")
		}
	})
}

// Nothing leaves the line while the process, or the node, stands still. That is no overload: who
// comes then, or just after it, is not shed, and who waited is excused for as long, unless the node
// is far or stood still just before.
func TestAStandstillIsNoOverload(t *testing.T) {
	for _, far := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := grounded(t)
			e, o := l.env, l.outbox()
			o.flying = maxFlights // what leaves the line leaves by the test
			o.far.Store(far)
			stands := e.CallTimeout * 6 / 10
			time.Sleep(3 * e.CallTimeout)
			excused := func() int64 {
				opened := e.Clock.Now()
				o.add(waiting{lane: l, since: opened})
				o.add(waiting{lane: l, since: opened})
				time.Sleep(stands)
				if o.overdue(e.Clock.Now()) {
					t.Error("a standstill is taken for an overload")
				}
				o.pop(&flight{}, e.Clock.Now())
				return o.excuses(opened)
			}
			want := int64(stands)
			if far {
				want = 0
			}
			if got := excused(); got != want {
				t.Errorf("far %v: excused for %d of %d", far, got, stands)
			}
			if o.overdue(e.Clock.Now()) != far {
				t.Errorf("far %v: just after it the line is overdue: %v", far, !far)
			}
			o.pop(&flight{}, e.Clock.Now())
			if got := excused(); got > 0 {
				t.Errorf("the next one at once is excused for %d", got)
			}
		})
	}
}

// TestWhatIsOnTheWayIsAnsweredInTime: flights carry less if they take more than a quarter of the
// time that calls have beyond the way, and more while that is full and they do not.
func TestWhatIsOnTheWayIsAnsweredInTime(t *testing.T) {
	for _, way := range []time.Duration{time.Millisecond, 60 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := grounded(t)
			e, o := l.env, &capacity{most: maxLoad}
			fly := func(carries int, takes time.Duration) int {
				f := &flight{outbox: l.outbox(), load: carries, began: e.Clock.Now()}
				f.env = e
				o.aboard += carries
				time.Sleep(takes)
				o.unload(f)
				return o.most
			}
			fly(1, way)
			most := (e.CallTimeout - way) / 4
			if got := fly(maxLoad, way+most); got != maxLoad+leastAboard {
				t.Errorf("way %s: after a flight in time there may be %d", way, got)
			}
			if got := fly(1, way+most); got != maxLoad+leastAboard {
				t.Errorf("way %s: there may be %d, though there was room", way, got)
			}
			if got := fly(maxLoad, way+2*most); got != (maxLoad+leastAboard)/2 {
				t.Errorf("way %s: after a flight that took twice as long there may be %d", way, got)
			}
			for range 1000 {
				fly(o.most, way)
			}
			if o.most != maxAboard {
				t.Errorf("way %s: there may be %d at most", way, o.most)
			}
		})
	}
}

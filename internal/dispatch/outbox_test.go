package dispatch

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
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

// TestWhatWaitsForLongestDepartsFirst: the line of a node is in the order of age. A lane may come
// late into it, because its asks waited for another call of the lane.
func TestWhatWaitsForLongestDepartsFirst(t *testing.T) {
	l := grounded(t)
	o := &outbox{env: l.env, part: whole, flying: maxFlights, capacity: capacity{most: maxLoad}}
	for _, since := range []int64{3, 1, 2} {
		o.add(waiting{lane: l, since: since})
	}
	if o.oldest.Load() != 1 {
		t.Errorf("the oldest came at %d", o.oldest.Load())
	}
	for want := range int64(3) {
		if next, _ := o.pop(&flight{}, 4); next.since != want+1 {
			t.Errorf("number %d came at %d", want+1, next.since)
		}
	}
}

// A flight lets those who are about to call run first while others are under way or participants
// contend, and not once there is enough for a whole one.
func TestAFlightWaitsForCompany(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	l := grounded(t)
	for _, c := range []struct {
		name            string
		flying, waiting int
		contended       bool
		first           bool // others run first
	}{
		{"a lone call", 1, 1, false, false},
		{"a call beside another flight", 2, 1, false, true},
		{"a call of participants that contend", 1, 1, true, true},
		{"a whole flight of participants that contend", 1, maxLoad, true, false},
	} {
		l.Known.contended.Store(c.contended)
		first := 0
		for range 20 { // the scheduler may decide otherwise once in a while
			o := &outbox{env: l.env, part: whole, flying: c.flying, loading: true, capacity: capacity{most: maxLoad}}
			for range c.waiting {
				o.add(waiting{lane: l, since: l.env.Clock.Now()})
			}
			var came atomic.Bool
			others := make(chan struct{})
			go func() { came.Store(true); close(others) }()
			o.fly(newFlight(o))
			if came.Load() {
				first++
			}
			<-others
		}
		if c.first && first < 15 || !c.first && first > 5 {
			t.Errorf("%s: others ran first %d times of 20", c.name, first)
		}
	}
}

// Who comes while what waits is more than can be sent in time is refused at once, but not who can
// go with what waits already. When the line is shorter, calls are taken again. While nothing comes
// back, that is no overload.
func TestACallThatCannotBeSentInTimeIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		o := l.outbox()
		o.flying = maxFlights // nothing departs
		o.add(waiting{lane: l, since: l.env.Clock.Now()})
		first := l.call(t.Context(), 1, false)
		time.Sleep(l.env.CallTimeout/2 + time.Millisecond)
		if o.overdue(l.env.Clock.Now()) {
			t.Error("a standstill is taken for an overload")
		}
		o.way.Store(int64(2 * time.Millisecond))
		f := &flight{outbox: o, load: 1}
		f.env = l.env
		if o.unload(f); o.overdue(l.env.Clock.Now()) {
			t.Error("after a standstill what waited in it is taken for an overload")
		}
		o.stood.Store(0)
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
// To a node next door it may take two.
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
		way := e.CallTimeout / nextDoor
		for _, c := range []struct {
			way  time.Duration
			more int
		}{{0, quarter}, {way + 1, 0}, {way, quarter + 1}} {
			o.way.Store(int64(c.way))
			add(c.more - 1)
			if o.overdue(e.Clock.Now()) {
				t.Errorf("%s away: %d wait, and the line is too long", c.way, o.line.Load())
			}
			add(1)
			if !o.overdue(e.Clock.Now()) {
				t.Errorf("%s away: %d wait, and the line is not too long", c.way, o.line.Load())
			}
			leave(1)
		}
		leave(2 * quarter)
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

// The first of a line may wait for half of a call timeout, and from next door for three quarters. A
// part of a cluster next door has two flights.
func TestFromNextDoorMoreIsInTime(t *testing.T) {
	l := grounded(t)
	way := int64(l.env.CallTimeout / nextDoor)
	for _, c := range []struct {
		way      int64
		part     int
		flights  int
		quarters int64
	}{{0, whole, maxFlights, 2}, {way, whole, maxFlights, 3}, {0, 0, 2, 2}, {way, 0, 2, 3}, {way + 1, 0, maxFlights, 2}} {
		o := &outbox{env: l.env, part: c.part}
		o.way.Store(c.way)
		longest := c.quarters * int64(l.env.CallTimeout/4)
		if o.flights() != c.flights || o.behind(7, 7+longest) || !o.behind(7, 8+longest) {
			t.Errorf("%+v: %d flights, too long %v, %v", c, o.flights(), o.behind(7, 7+longest), o.behind(7, 8+longest))
		}
	}
}

// TestWhatIsOnTheWayIsAnsweredInTime: less may be on the way once flights take longer than the way
// and an eighth of the call timeout, and more while it is full and they do not.
func TestWhatIsOnTheWayIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const way = time.Millisecond
		l := grounded(t)
		e, o := l.env, &capacity{most: maxLoad}
		begin := func(carries int) *flight {
			f := &flight{outbox: l.outbox(), load: carries, began: e.Clock.Now()}
			f.env = e
			o.aboard += carries
			return f
		}
		fly := func(carries int, takes time.Duration) {
			f := begin(carries)
			time.Sleep(takes)
			o.unload(f)
		}
		may := func(want int, after string) {
			t.Helper()
			if o.most != want || o.aboard != 0 {
				t.Errorf("%s %d may be on the way, want %d; %d are", after, o.most, want, o.aboard)
			}
		}
		fly(1, way)
		fly(1, way)
		longest := e.CallTimeout / 8
		fly(maxLoad, way+longest)
		may(maxLoad+leastAboard, "after a flight in time")
		fly(1, way+longest)
		may(maxLoad+leastAboard, "after one for which there was room")
		known, failed := o.way.Load(), begin(1)
		failed.failed = true
		o.unload(failed)
		if told := o.way.Load(); told != known {
			t.Errorf("a failed flight tells that the way takes %s", time.Duration(told))
		}
		others := []*flight{begin(maxLoad / 2), begin(maxLoad / 2)}
		time.Sleep(way + 2*longest)
		for _, f := range others {
			o.unload(f)
		}
		may((maxLoad+leastAboard)/2, "after two at once that took twice as long")
		if !o.slow.Load() {
			t.Error("a node is not slow after a flight that took much longer than the way")
		}
		fly(maxLoad, 1000*longest)
		may(leastAboard, "after one that took for ever")
		for range 1000 {
			fly(o.most, way)
		}
		may(maxAboard, "after many that were full")
	})
}

// TestFromAfarMoreIsUnderWay: what is on a long way does not keep the node busy. So more may be
// under way from the first answer on, and much more soon; and a call departs only while its answer
// can come in time.
func TestFromAfarMoreIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		timeout := l.env.CallTimeout
		if most := l.outbox().most; most != firstReach*maxLoad {
			t.Errorf("before the first answer %d may be under way", most)
		}
		for _, c := range []struct {
			way                     time.Duration
			first, then, most, each int
			boarding                time.Duration
		}{
			{time.Millisecond, maxLoad, maxLoad + leastAboard, maxAboard, maxFlights, timeout * 3 / 4},
			{timeout / 32, 2 * maxLoad, 3 * maxLoad, 2 * maxAboard, 2 * maxFlights, timeout * 3 / 4},
			{timeout / 4, 4 * maxLoad, 5 * maxLoad, farthest * maxAboard, 4 * maxFlights, timeout * 23 / 32},
			{timeout * 9 / 10, 4 * maxLoad, 5 * maxLoad, farthest * maxAboard, 4 * maxFlights, timeout / 8},
		} {
			o := &outbox{env: l.env, part: whole, capacity: capacity{most: maxLoad}}
			var may []int
			for i, carries := range append([]int{1, 1}, slices.Repeat([]int{maxLoad}, 1000)...) {
				f := &flight{outbox: o, load: carries, began: l.env.Clock.Now()}
				f.env = l.env
				switch i {
				case 0:
					time.Sleep(timeout) // it loads the script
				case 1:
					if o.boarding() != int64(timeout*3/4) {
						t.Errorf("after one flight a call departs until %s", time.Duration(o.boarding()))
					}
				default:
					o.aboard = o.most // others are under way
				}
				time.Sleep(c.way)
				if o.unload(f); i > 0 {
					may = append(may, o.most)
				}
			}
			if may[0] != c.first || may[1] != c.then || o.most != c.most || o.flights() != c.each ||
				o.boarding() != int64(c.boarding) || !o.behind(7, 8+o.boarding()) {
				t.Errorf("%s away %v may be under way, then %d in %d flights; a call departs until %s", c.way, may[:2],
					o.most, o.flights(), time.Duration(o.boarding()))
			}
		}
	})
}

// TestFromAfarSeveralBatchesAreUnderWay: a call need not wait until the one before it is answered,
// unless the way is short or the node slow, participants contend, or nothing is answered.
func TestFromAfarSeveralBatchesAreUnderWay(t *testing.T) {
	const way = 10 * time.Millisecond
	for _, c := range []struct {
		name            string
		way, since      time.Duration // since the last was answered
		slow, contended bool
		want, later     int
	}{
		{name: "not known", want: 1, later: 2},
		{name: "short", way: longWay - 1, want: 1, later: 1},
		{name: "long", way: way, want: farBatches, later: farBatches + 1},
		{name: "slow", way: way, slow: true, want: 1, later: 1},
		{name: "contended", way: way, contended: true, want: 1, later: 1},
		{name: "silent", way: way, since: 2*way + 1, want: 1, later: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := grounded(t)
			o := l.outbox()
			o.flying = 8 * maxFlights // what departs departs by the test
			o.way.Store(int64(c.way))
			o.slow.Store(c.slow)
			l.Known.contended.Store(c.contended)
			time.Sleep(time.Second)
			l.moved = l.env.Clock.Now() - int64(c.since)
			depart := func() {
				if o.line.Load() > 0 {
					o.pop(&flight{}, l.env.Clock.Now())
					l.depart()
				}
			}
			for range 2 * farBatches {
				l.call(t.Context(), 1, false)
				depart()
			}
			if int(l.away) != c.want {
				t.Errorf("%s: %d under way, want %d", c.name, l.away, c.want)
			}
			time.Sleep(l.env.CallTimeout / 16)
			synctest.Wait()
			depart()
			if int(l.away) != c.later {
				t.Errorf("%s: later %d under way, want %d", c.name, l.away, c.later)
			}
			l.Waiting.Store(0)
		})
	}
}

// TestWhoIsTooOldForItsWayDissolvesNothing: from afar a call departs only while its answer can come
// in time, and one that is older is refused. It does not join those that are young again and again.
func TestWhoIsTooOldForItsWayDissolvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		o := l.outbox()
		o.way.Store(int64(l.env.CallTimeout * 6 / 10))
		o.told.Store(sure)
		o.flying = 8 * maxFlights // what departs departs by the test
		old := l.call(t.Context(), 1, false)
		o.pop(&flight{}, l.env.Clock.Now())
		time.Sleep(time.Duration(o.boarding()) - time.Millisecond)
		young := l.call(t.Context(), 1, false)
		time.Sleep(2 * time.Millisecond)
		if l.depart() != nil {
			t.Error("a call departed too late")
		}
		synctest.Wait()
		if l.serve(9); !errors.Is(old.err, ErrOverloaded) {
			t.Errorf("the old one: %+v", old)
		}
		synctest.Wait()
		if young.err != nil || young.Granted != 1 {
			t.Errorf("the young one: %+v", young)
		}
	})
}

// TestWhatIsUnderWayIsNotThereForOthers: the batch that may find too little is served by the full
// take at once: from afar there is no time for two calls.
func TestWhatIsUnderWayIsNotThereForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		now := l.env.Clock.Now() + 1
		l.Terms.Store(&Terms{Most: 10, Shards: 1, Window: time.Minute})
		l.Known.answered.Store(now)
		l.Known.sentAt.Store(now)
		l.Known.ResetAt.Store(now + int64(time.Minute))
		l.Known.free.Store(10)
		rare := func() bool {
			b := l.depart()
			s := &section{lane: l, batch: b, groups: b.groups(nil)}
			s.prepare(basis{l, l.Terms.Load()}, now)
			return s.req.Rare
		}
		l.call(t.Context(), 6, false)
		first := rare()
		l.call(t.Context(), 6, false)
		if second := rare(); first || !second {
			t.Errorf("6 of 10: %v, and 6 more: %v", first, second)
		}
		time.Sleep(l.env.CallTimeout)
	})
}

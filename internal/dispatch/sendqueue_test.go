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
	sh := grounded(t)
	// All requests are under way.
	q := &sendQueue{env: sh.env, part: whole, requests: maxRequests, capacity: capacity{mostLoad: maxLoad}}
	q.add(waiting{shard: sh, since: 1})
	for range 100_000 {
		q.add(waiting{shard: sh, since: 1})
		if next, _ := q.pop(&request{}, sh.env.Clock.Now()); next.shard == nil {
			t.Fatal("empty")
		}
	}
	if len(q.waiting)-q.gone != 1 || cap(q.waiting) > 64 {
		t.Errorf("%d wait, with room for %d", len(q.waiting)-q.gone, cap(q.waiting))
	}
}

// TestWhatWaitsForLongestIsSentFirst: the line of a node is in the order of age. A shard may come
// late into it, because its asks waited for another call of the shard.
func TestWhatWaitsForLongestIsSentFirst(t *testing.T) {
	sh := grounded(t)
	q := &sendQueue{env: sh.env, part: whole, requests: maxRequests, capacity: capacity{mostLoad: maxLoad}}
	for _, since := range []int64{3, 1, 2} {
		q.add(waiting{shard: sh, since: since})
	}
	if q.oldest.Load() != 1 {
		t.Errorf("the oldest came at %d", q.oldest.Load())
	}
	for want := range int64(3) {
		if next, _ := q.pop(&request{}, 4); next.since != want+1 {
			t.Errorf("number %d came at %d", want+1, next.since)
		}
	}
}

// A request lets those who are about to call run first while others are under way or participants
// contend, and not once there is enough for a whole one.
func TestARequestWaitsForCompany(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	sh := grounded(t)
	for _, c := range []struct {
		name              string
		underWay, waiting int
		contended         bool
		first             bool // others run first
	}{
		{"a lone call", 1, 1, false, false},
		{"a call beside another request", 2, 1, false, true},
		{"a call of participants that contend", 1, 1, true, true},
		{"a whole request of participants that contend", 1, maxLoad, true, false},
	} {
		sh.Known.contended.Store(c.contended)
		first := 0
		for range 20 { // the scheduler may decide otherwise once in a while
			q := &sendQueue{env: sh.env, part: whole, requests: c.underWay, filling: true,
				capacity: capacity{mostLoad: maxLoad}}
			for range c.waiting {
				q.add(waiting{shard: sh, since: sh.env.Clock.Now()})
			}
			var came atomic.Bool
			others := make(chan struct{})
			go func() { came.Store(true); close(others) }()
			q.send(newRequest(q.env, q))
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
		sh := grounded(t)
		q := sh.sendQueue()
		q.requests = maxRequests // nothing is sent
		q.add(waiting{shard: sh, since: sh.env.Clock.Now()})
		first := sh.call(t.Context(), 1, false)
		time.Sleep(sh.env.CallTimeout/2 + time.Millisecond)
		if q.overdue(sh.env.Clock.Now()) {
			t.Error("a standstill is taken for an overload")
		}
		q.rtt.Store(int64(2 * time.Millisecond))
		req := &request{queue: q, load: 1}
		req.env = sh.env
		if q.unload(req); q.overdue(sh.env.Clock.Now()) {
			t.Error("after a standstill what waited in it is taken for an overload")
		}
		q.resumed.Store(0)
		with := sh.call(t.Context(), 1, false)
		limit := &quietLimit{} // of another shard of the node
		other := (&Shard{}).Init(sh.env, sh.Home, limit, script.ShardRef{}, sh.Node, &Terms{})
		other.underWay = 1
		limit.own = NewAccount(&Participant{ID: "p", Weight: 1000}, other)
		if late := other.call(t.Context(), 1, false); !errors.Is(late.err, ErrOverloaded) || other.Unanswered.Load() != 0 {
			t.Errorf("%+v, %d wait", late, other.Unanswered.Load())
		}
		if b := sh.serve(9); b == nil {
			t.Fatal("nothing is sent")
		}
		synctest.Wait()
		if first.Granted != 1 || with.Granted != 1 {
			t.Errorf("%+v, %+v", first, with)
		}
		q.pop(&request{}, sh.env.Clock.Now())
		again := other.call(t.Context(), 1, false)
		other.serve(9)
		synctest.Wait()
		if again.err != nil || again.Granted != 1 {
			t.Errorf("after that: %+v", again)
		}
	})
}

// While more comes than can be served for long, and not only after a burst, a line is too long if
// it would take more than three eighths of the call timeout, though its first has not waited for
// long. To a node nearby it may take five.
func TestALineThatCannotBeServedSoonIsTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quarter = 3 * maxLoad // leave the line in a quarter of the call timeout
		sh := grounded(t)
		e, q := sh.env, sh.sendQueue()
		q.requests = maxRequests // what leaves the line leaves by the test
		add := func(n int) {
			for range n {
				q.add(waiting{shard: sh, since: e.Clock.Now()})
			}
		}
		leave := func(n int) {
			for range n {
				q.pop(&request{}, e.Clock.Now())
			}
			q.over.sends(n, q.length.Load() == 0, e.Clock.Now(), int64(e.CallTimeout/4))
		}
		pass := func() {
			time.Sleep(e.CallTimeout / 4)
			add(quarter)
			leave(quarter)
		}
		overload := func() {
			for range 5 {
				q.over.sheds(e.Clock.Now(), int64(e.CallTimeout))
				pass()
			}
			q.over.sheds(e.Clock.Now(), int64(e.CallTimeout))
		}
		add(1) // the line is never empty
		for range 4 {
			q.over.sheds(e.Clock.Now(), int64(e.CallTimeout))
			pass()
		}
		add(10 * quarter)
		if q.overdue(e.Clock.Now()) {
			t.Error("calls were shed for no longer than a call timeout, and the line is too long")
		}
		leave(10 * quarter)
		overload()
		rtt := e.CallTimeout / nearby
		for _, c := range []struct {
			rtt  time.Duration
			more int
		}{{0, quarter * 3 / 2}, {rtt + 1, 0}, {rtt, quarter + 1}} {
			q.rtt.Store(int64(c.rtt))
			add(c.more - 1)
			if q.overdue(e.Clock.Now()) {
				t.Errorf("%s away: %d wait, and the line is too long", c.rtt, q.length.Load())
			}
			add(1)
			if !q.overdue(e.Clock.Now()) {
				t.Errorf("%s away: %d wait, and the line is not too long", c.rtt, q.length.Load())
			}
			leave(1)
		}
		leave(quarter * 5 / 2)
		time.Sleep(e.CallTimeout / 8)
		q.over.sheds(e.Clock.Now(), int64(e.CallTimeout))
		add(10 * quarter)
		if q.overdue(e.Clock.Now()) {
			t.Error("the line was empty for a while, and is too long")
		}
		leave(10*quarter - 1)
		overload()
		for n := q.length.Load(); n >= 0; n-- { // too old; the last pop finds nothing
			q.pop(&request{}, e.Clock.Now())
		}
		time.Sleep(e.CallTimeout / 8)
		if add(10 * quarter); !q.overdue(e.Clock.Now()) {
			t.Error("nothing of the line was in time, and it is not too long")
		}
		leave(10*quarter - 1)
		time.Sleep(e.CallTimeout / 3) // nobody is shed
		leave(1)
		add(1)
		time.Sleep(e.CallTimeout / 3)
		leave(1)
		add(1)
		time.Sleep(e.CallTimeout / 2)
		leave(1)
		add(10 * quarter)
		if q.overdue(e.Clock.Now()) {
			t.Error("long after that the line is too long")
		}
	})
}

// A call that leaves the line unsent does not count as served, or a line of such calls would pass
// for one that moves quickly.
func TestARateIsOfWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		q := sh.sendQueue()
		q.mostLoad, q.requests = mostUnderWay, maxRequests // what leaves the line leaves by the test
		for range 3 {
			time.Sleep(sh.env.CallTimeout / 4)
			for i := range 30 {
				a := &KeyAsk{account: NewAccount(&Participant{ID: "p"}, sh), n: 1, since: sh.env.Clock.Now(),
					over: make(chan struct{}, 1)}
				if a.gone = func(Part) {}; i%3 > 0 {
					a.state.Store(left)
				}
				q.add(waiting{shard: sh, key: a, since: a.since})
			}
			q.filling = true
			q.fill(newRequest(sh.env, q))
		}
		if n := q.over.rate.Load(); n != 10 {
			t.Errorf("10 of 30 are sent, and the rate is %d", n)
		}
	})
}

// The first of a line may wait for half of a call timeout, and from nearby for three quarters. A
// part of a cluster nearby has two requests.
func TestFromNearbyMoreIsInTime(t *testing.T) {
	sh := grounded(t)
	rtt := int64(sh.env.CallTimeout / nearby)
	for _, c := range []struct {
		rtt      int64
		part     int
		requests int
		quarters int64
	}{{0, whole, maxRequests, 2}, {rtt, whole, maxRequests, 3}, {0, 0, 2, 2}, {rtt, 0, 2, 3},
		{rtt + 1, 0, maxRequests, 2}} {
		q := &sendQueue{env: sh.env, part: c.part}
		q.rtt.Store(c.rtt)
		longest := c.quarters * int64(sh.env.CallTimeout/4)
		if q.mostRequests() != c.requests || q.behind(7, 7+longest) || !q.behind(7, 8+longest) {
			t.Errorf("%+v: %d requests, too long %v, %v", c, q.mostRequests(), q.behind(7, 7+longest), q.behind(7, 8+longest))
		}
	}
}

// TestWhatIsOnTheWayIsAnsweredInTime: less may be on the way once requests take longer than the rtt
// and an eighth of the call timeout, and more while it is full and they do not.
func TestWhatIsOnTheWayIsAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = time.Millisecond
		sh := grounded(t)
		e, o := sh.env, &capacity{mostLoad: maxLoad}
		begin := func(carries int) *request {
			req := &request{queue: sh.sendQueue(), load: carries, began: e.Clock.Now()}
			req.env = e
			o.loadUnderWay += carries
			return req
		}
		serve := func(carries int, takes time.Duration) {
			req := begin(carries)
			time.Sleep(takes)
			o.unload(req)
		}
		may := func(want int, after string) {
			t.Helper()
			if o.mostLoad != want || o.loadUnderWay != 0 {
				t.Errorf("%s %d may be on the way, want %d; %d are", after, o.mostLoad, want, o.loadUnderWay)
			}
		}
		serve(1, rtt)
		serve(1, rtt)
		longest := e.CallTimeout / 8
		serve(maxLoad, rtt+longest)
		may(maxLoad+leastUnderWay, "after a request in time")
		serve(1, rtt+longest)
		may(maxLoad+leastUnderWay, "after one for which there was room")
		known, failed := o.rtt.Load(), begin(1)
		failed.failed = true
		o.unload(failed)
		if told := o.rtt.Load(); told != known {
			t.Errorf("a failed request tells that a round trip takes %s", time.Duration(told))
		}
		others := []*request{begin(maxLoad / 2), begin(maxLoad / 2)}
		time.Sleep(rtt + 2*longest)
		for _, req := range others {
			o.unload(req)
		}
		may((maxLoad+leastUnderWay)/2, "after two at once that took twice as long")
		if !o.slow.Load() {
			t.Error("a node is not slow after a request that took much longer than a round trip")
		}
		serve(maxLoad, 1000*longest)
		may(leastUnderWay, "after one that took for ever")
		for range 1000 {
			serve(o.mostLoad, rtt)
		}
		may(mostUnderWay, "after many that were full")
	})
}

// TestFromAfarMoreIsUnderWay: what is on its way for long does not keep the node busy. So more may
// be under way from the first answer on, and much more soon; and a call is sent only while its
// answer can come in time.
func TestFromAfarMoreIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		timeout := sh.env.CallTimeout
		if most := sh.sendQueue().mostLoad; most != firstReach*maxLoad {
			t.Errorf("before the first answer %d may be under way", most)
		}
		for _, c := range []struct {
			rtt                     time.Duration
			first, then, most, each int
			sendBy                  time.Duration
		}{
			{time.Millisecond, maxLoad, maxLoad + leastUnderWay, mostUnderWay, maxRequests, timeout * 3 / 4},
			{timeout / 32, 2 * maxLoad, 3 * maxLoad, 2 * mostUnderWay, 2 * maxRequests, timeout * 3 / 4},
			{timeout / 4, 4 * maxLoad, 5 * maxLoad, farthest * mostUnderWay, 4 * maxRequests, timeout * 23 / 32},
			{timeout * 9 / 10, 4 * maxLoad, 5 * maxLoad, farthest * mostUnderWay, 4 * maxRequests, timeout / 8},
		} {
			q := &sendQueue{env: sh.env, part: whole, capacity: capacity{mostLoad: maxLoad}}
			var may []int
			for i, carries := range append([]int{1, 1}, slices.Repeat([]int{maxLoad}, 1000)...) {
				req := &request{queue: q, load: carries, began: sh.env.Clock.Now()}
				req.env = sh.env
				switch i {
				case 0:
					time.Sleep(timeout) // it loads the script
				case 1:
					if q.maxAge() != int64(timeout*3/4) {
						t.Errorf("after one request a call is sent until %s", time.Duration(q.maxAge()))
					}
				default:
					q.loadUnderWay = q.mostLoad // others are under way
				}
				time.Sleep(c.rtt)
				if q.unload(req); i > 0 {
					may = append(may, q.mostLoad)
				}
			}
			if may[0] != c.first || may[1] != c.then || q.mostLoad != c.most || q.mostRequests() != c.each ||
				q.maxAge() != int64(c.sendBy) || !q.behind(7, 8+q.maxAge()) {
				t.Errorf("%s away %v may be under way, then %d in %d requests; a call is sent until %s", c.rtt, may[:2],
					q.mostLoad, q.mostRequests(), time.Duration(q.maxAge()))
			}
		}
	})
}

// TestFromAfarSeveralBatchesAreUnderWay: a call need not wait until the one before it is answered,
// unless the round trip is short or the node slow, participants contend, or nothing is answered.
func TestFromAfarSeveralBatchesAreUnderWay(t *testing.T) {
	const rtt = 10 * time.Millisecond
	for _, c := range []struct {
		name            string
		rtt, since      time.Duration // since the last was answered
		slow, contended bool
		want, later     int
	}{
		{name: "not known", want: 1, later: 2},
		{name: "short", rtt: longRTT - 1, want: 1, later: 1},
		{name: "long", rtt: rtt, want: farBatches, later: farBatches + 1},
		{name: "slow", rtt: rtt, slow: true, want: 1, later: 1},
		{name: "contended", rtt: rtt, contended: true, want: 1, later: 1},
		{name: "silent", rtt: rtt, since: 2*rtt + 1, want: 1, later: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			sh := grounded(t)
			q := sh.sendQueue()
			q.requests = 8 * maxRequests // the test sends what is sent
			q.rtt.Store(int64(c.rtt))
			q.slow.Store(c.slow)
			sh.Known.contended.Store(c.contended)
			time.Sleep(time.Second)
			sh.moved = sh.env.Clock.Now() - int64(c.since)
			send := func() {
				if q.length.Load() > 0 {
					q.pop(&request{}, sh.env.Clock.Now())
					sh.nextBatch()
				}
			}
			for range 2 * farBatches {
				sh.call(t.Context(), 1, false)
				send()
			}
			if int(sh.underWay) != c.want {
				t.Errorf("%s: %d under way, want %d", c.name, sh.underWay, c.want)
			}
			time.Sleep(sh.env.CallTimeout / 16)
			synctest.Wait()
			send()
			if int(sh.underWay) != c.later {
				t.Errorf("%s: later %d under way, want %d", c.name, sh.underWay, c.later)
			}
			sh.Unanswered.Store(0)
		})
	}
}

// TestWhoIsTooOldForItsWayDissolvesNothing: from afar a call is sent only while its answer can come
// in time, and one that is older is refused. It does not join those that are young again and again.
func TestWhoIsTooOldForItsWayDissolvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		q := sh.sendQueue()
		q.rtt.Store(int64(sh.env.CallTimeout * 6 / 10))
		q.samples.Store(minSamples)
		q.requests = 8 * maxRequests // the test sends what is sent
		old := sh.call(t.Context(), 1, false)
		q.pop(&request{}, sh.env.Clock.Now())
		time.Sleep(time.Duration(q.maxAge()) - time.Millisecond)
		young := sh.call(t.Context(), 1, false)
		time.Sleep(2 * time.Millisecond)
		if sh.nextBatch() != nil {
			t.Error("a call was sent too late")
		}
		synctest.Wait()
		if sh.serve(9); !errors.Is(old.err, ErrOverloaded) {
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
		sh := grounded(t)
		now := sh.env.Clock.Now() + 1
		sh.Terms.Store(&Terms{Most: 10, Shards: 1, Window: time.Minute})
		sh.Known.answered.Store(now)
		sh.Known.sentAt.Store(now)
		sh.Known.ResetAt.Store(now + int64(time.Minute))
		sh.Known.free.Store(10)
		rare := func() bool {
			b := sh.nextBatch()
			s := &section{shard: sh, batch: b, groups: b.groups(nil)}
			s.prepare(basis{sh, sh.Terms.Load()}, now)
			return s.take.Rare
		}
		sh.call(t.Context(), 6, false)
		first := rare()
		sh.call(t.Context(), 6, false)
		if second := rare(); first || !second {
			t.Errorf("6 of 10: %v, and 6 more: %v", first, second)
		}
		time.Sleep(sh.env.CallTimeout)
	})
}

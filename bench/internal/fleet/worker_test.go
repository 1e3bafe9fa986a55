package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// TestArrivals: those of a steady member come at equal distances, each member's at times
// of its own; the others' come at random. Both keep to the rate.
func TestArrivals(t *testing.T) {
	const rate, calls = 100.0, 2000
	distance := time.Second / rate
	phases := make(map[time.Duration]bool)
	for i := range 8 {
		for _, even := range []bool{false, true} {
			m := Member{Rate: rate, Even: even, Index: i}
			next, again := m.arrivals(1), m.arrivals(1)
			first := next().At
			if again().At != first {
				t.Fatalf("the same seed begins at %s and at another time", first)
			}
			last, apart := first, 0
			for range calls {
				at := next().At
				if gap := at - last; gap < 0 {
					t.Fatalf("a call at %s after one at %s", at, last)
				} else if gap < distance-time.Microsecond || gap > distance+time.Microsecond {
					apart++
				}
				last = at
			}
			if even != (apart == 0) || !even && apart < calls/2 {
				t.Errorf("even %v: %d of %d distances differ from %s", even, apart, calls, distance)
			}
			if mean := (last - first) / calls; mean < distance*9/10 || mean > distance*11/10 {
				t.Errorf("even %v: a call every %s, want %s", even, mean, distance)
			}
			if even {
				phases[first] = true
				if first >= distance {
					t.Errorf("the first call is at %s, want it within %s", first, distance)
				}
			}
		}
	}
	if len(phases) != 8 {
		t.Errorf("8 steady members begin at %d different times", len(phases))
	}
}

// TestPlayIsSteady: as many calls as are due at equal distances are made, whenever the
// member comes to look; at random it would be some other number, with this seed.
func TestPlayIsSteady(t *testing.T) {
	const rate = 4000
	c := Crowd{Tick: 5 * time.Millisecond, For: 100 * time.Millisecond, Seed: 4}
	g := &gatherer{c: &c, begin: history.Now(), now: history.Now}
	g.play(t.Context(), Member{Rate: rate, Even: true},
		func(_ context.Context, n int64) (int64, error) { return n, nil })
	calls := g.Unsent
	for _, take := range g.Trails[0].Takes {
		calls += take.Wanted
	}
	if least, most := int64(rate*(c.For-c.Tick).Seconds()), int64(rate*c.For.Seconds()); calls < least || calls > most {
		t.Errorf("%d calls, want %d to %d", calls, least, most)
	}
}

// TestWishes: callers that never work want the whole limit, while they are there.
func TestWishes(t *testing.T) {
	c := Crowd{Permits: 3000, Per: 2 * time.Second, Tick: 10 * time.Millisecond, For: 20 * time.Second}
	for want, m := range map[int64]Member{30_000: {Callers: 5},
		12_000: {Callers: 5, From: 4 * time.Second, To: 12 * time.Second}} {
		var wanted int64
		for _, w := range c.wishes(m) {
			wanted += w.Wanted
			if at := time.Duration(w.At) * time.Microsecond; at < m.From || m.To > 0 && at >= m.To || w.At != w.End ||
				w.Granted != 0 {
				t.Fatalf("%+v wishes %+v", m, w)
			}
		}
		if wanted != want {
			t.Errorf("%+v wants %d permits, want %d", m, wanted, want)
		}
	}
}

// TestWork: times of work have the mean that they should have, the same ones for the
// same seed, and others for each caller and each member.
func TestWork(t *testing.T) {
	m := Member{Work: time.Second}
	next, again := m.work(1, 0), m.work(1, 0)
	var sum time.Duration
	for range 10_000 {
		took := next()
		if sum += took; took != again() {
			t.Fatal("the same seed gives other times")
		}
	}
	if mean := sum / 10_000; mean < 950*time.Millisecond || mean > 1050*time.Millisecond {
		t.Errorf("%s on average", mean)
	}
	other := m
	other.Index = 1
	if m.work(1, 0)() == m.work(1, 1)() || m.work(1, 0)() == other.work(1, 0)() {
		t.Error("two callers work for the same times")
	}
}

// TestMissed: in all the time that a caller waits, in however many pieces, it misses a permit after
// each time of work.
func TestMissed(t *testing.T) {
	m := Member{Work: 70}
	var before time.Duration
	var missed []time.Duration
	for from := time.Duration(1000); from < 41_000; from += 400 {
		to := from + from%370
		for _, at := range m.missed(before, from, to) {
			if missed = append(missed, at); at < from || at > to || (before+at-from)%m.Work != 0 {
				t.Errorf("misses one at %d between %d and %d", at, from, to)
			}
		}
		before += to - from
	}
	if len(missed) == 0 || len(missed) != int(before/m.Work) {
		t.Errorf("misses %d permits in %d", len(missed), before)
	}
}

// TestEmploy: between two permits a caller works as long as it was to, and asks for one permit at a
// time; when its time is over it gives up. It wants what it asks for and what it misses.
func TestEmploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := func() int64 { return time.Now().UnixNano() }
		const waits = 3 * time.Millisecond
		c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: 100 * time.Millisecond, Seed: 2}
		m := Member{Callers: 1, Work: 4 * time.Millisecond, From: 10 * time.Millisecond, Index: 3}
		g := &gatherer{c: &c, begin: now(), now: now}
		g.employ(t.Context(), m, func(ctx context.Context) error { time.Sleep(waits); return ctx.Err() })
		if len(g.Trails) != 1 || g.Trails[0].Index != m.Index || g.Failed != 0 {
			t.Fatalf("%d trails, %d calls failed (%s)", len(g.Trails), g.Failed, g.Err)
		}
		var (
			work         = m.work(c.Seed, 0)
			least, spent = m.From.Microseconds(), int64(0)
			missed, last int64
		)
		for _, take := range g.Trails[0].Takes {
			if take.Wanted != 1 {
				t.Fatalf("wants %d permits at once", take.Wanted)
			}
			if take.Granted == 0 && take.End-take.At < waits.Microseconds() {
				missed++
				continue
			}
			if least += work().Microseconds(); take.At < least-100 || take.At < last-1 {
				t.Errorf("asked at %d, should have worked until %d, and the last permit came at %d", take.At, least, last)
			}
			least, last = least+waits.Microseconds(), take.End
			spent += take.End - take.At
		}
		if due := spent / m.Work.Microseconds(); missed < due-1 || missed > due {
			t.Errorf("missed %d permits in %d us, about %d are due", missed, spent, due)
		}
	})
}

// TestEmployIdlers: callers that do not work ask until no more comes, and are not
// said to have failed when they give up.
func TestEmployIdlers(t *testing.T) {
	const permits, callers = 20, 4
	c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: time.Minute}
	g := &gatherer{c: &c, begin: history.Now(), now: history.Now}
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	g.employ(ctx, Member{Callers: callers}, func(ctx context.Context) error {
		call := calls.Add(1)
		if call <= permits {
			return nil
		}
		if call == permits+callers {
			cancel() // all of them wait
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if got := total(g.Trails[0].Takes, granted); got != permits || g.Failed != 0 {
		t.Errorf("%d permits, %d calls failed (%s)", got, g.Failed, g.Err)
	}
}

// TestEmployFails: a call that fails is counted, and its caller goes on.
func TestEmployFails(t *testing.T) {
	c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: time.Minute}
	g := &gatherer{c: &c, begin: history.Now(), now: history.Now}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	g.employ(ctx, Member{Callers: 1}, func(context.Context) error {
		if calls++; calls == 3 {
			cancel()
		}
		return errors.New("boom")
	})
	if got := total(g.Trails[0].Takes, granted); got != 0 || g.Failed != 2 || g.Err != "boom" {
		t.Errorf("%d permits, %d calls failed (%s), want 2", got, g.Failed, g.Err)
	}
}

func wanted(t Take) int64  { return t.Wanted }
func granted(t Take) int64 { return t.Granted }

func total(takes []Take, of func(Take) int64) (sum int64) {
	for _, t := range takes {
		sum += of(t)
	}
	return sum
}

// TestGatherWaiters: whoever waits, over whatever limiter, gets what there is and no more.
func TestGatherWaiters(t *testing.T) {
	for _, kind := range []Kind{Coalesced, FirstCome} {
		for _, gateway := range []bool{false, true} {
			oneOf(t, func() error { return gatherWaiters(t, kind, gateway) })
		}
	}
}

func gatherWaiters(t *testing.T, kind Kind, gateway bool) error {
	c, f := crowd(t, kind), start(t, 2)
	c.Gateway = gateway
	for i := range c.Members {
		c.Members[i].Callers = 6
	}
	c.Members[1].Work = 20 * time.Millisecond
	g, err := f.Gather(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	var all int64
	idle := false
	for i, trail := range g.Trails {
		idle = idle || total(trail.Takes, wanted) == 0
		if trail.Index != i {
			t.Errorf("%s: trail %d is that of %d", kind, i, trail.Index)
		}
		for _, take := range trail.Takes {
			all += take.Granted
			if at := time.Duration(take.At) * time.Microsecond; take.Granted > 1 ||
				at < c.Members[i].From-time.Millisecond {
				t.Errorf("%s: take %+v of member %d", kind, take, i)
			}
		}
	}
	if all > c.Permits {
		t.Errorf("%s: %d granted, at most %d may be", kind, all, c.Permits)
	}
	if all < 1 || idle || g.Failed != 0 {
		return fmt.Errorf("%s: %d granted; somebody wants nothing: %t; %d failed (%s)", kind, all, idle, g.Failed,
			g.Err)
	}
	return nil
}

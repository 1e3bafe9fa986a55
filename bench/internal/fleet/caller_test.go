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
	const waits = 3 * time.Millisecond
	c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: 100 * time.Millisecond, Seed: 2}
	m := Member{Callers: 1, Work: 4 * time.Millisecond, From: 10 * time.Millisecond, Index: 3}
	g := &gatherer{c: &c, begin: history.Now()}
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
}

// TestEmployIdlers: callers that do not work ask until no more comes, and are not
// said to have failed when they give up.
func TestEmployIdlers(t *testing.T) {
	const permits, callers = 20, 4
	c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: time.Minute}
	g := &gatherer{c: &c, begin: history.Now()}
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
	g := &gatherer{c: &c, begin: history.Now()}
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

// TestRetried: who is denied comes again when it is told to, until it is granted a permit, fails or
// is told to stop.
func TestRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, boom := time.Now(), errors.New("boom")
		tries, last := 0, error(nil)
		w := retried(func(context.Context) (bool, time.Duration, error) {
			tries++
			if tries == 3 && last != nil {
				return false, 0, last
			}
			return tries == 4, time.Duration(tries) * time.Second, nil
		})
		if err := w(t.Context()); err != nil || tries != 4 || time.Since(began) != 6*time.Second {
			t.Errorf("%d tries in %s, err %v; want 4 in 6s", tries, time.Since(began), err)
		}
		tries, last = 0, boom
		if err := w(t.Context()); !errors.Is(err, boom) || tries != 3 {
			t.Errorf("%d tries, err %v", tries, err)
		}
		tries, last = 0, nil
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if err := w(ctx); !errors.Is(err, context.DeadlineExceeded) || tries != 2 {
			t.Errorf("%d tries, err %v", tries, err)
		}
	})
}

// TestGatherWaiters: whoever waits, over whatever limiter, gets what there is and no more.
func TestGatherWaiters(t *testing.T) {
	for _, kind := range []Kind{Coalesced, FirstCome, RedisRate} {
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
	var all, last int64
	idle := false
	for i, trail := range g.Trails {
		idle = idle || total(trail.Takes, wanted) == 0
		if trail.Index != i {
			t.Errorf("%s: trail %d is that of %d", kind, i, trail.Index)
		}
		for _, take := range trail.Takes {
			all, last = all+take.Granted, max(last, take.End)
			if at := time.Duration(take.At) * time.Microsecond; take.Granted > 1 ||
				at < c.Members[i].From-time.Millisecond {
				t.Errorf("%s: take %+v of member %d", kind, take, i)
			}
		}
	}
	// 40 at once; redis_rate lets more in as time passes, 40 a second.
	if most := 41 + 40*last/1e6; all > most || kind != RedisRate && all > c.Permits {
		t.Errorf("%s: %d granted, at most %d may be", kind, all, most)
	}
	if all < 1 || idle || g.Failed != 0 {
		return fmt.Errorf("%s: %d granted; somebody wants nothing: %t; %d failed (%s)", kind, all, idle, g.Failed,
			g.Err)
	}
	return nil
}

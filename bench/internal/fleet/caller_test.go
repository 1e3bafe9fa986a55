package fleet

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

// TestWishes: callers that never work want the whole limit, those that do want what they
// would ask for if nobody kept them waiting, and both while they are there.
func TestWishes(t *testing.T) {
	c := Crowd{Permits: 3000, Per: 2 * time.Second, Tick: 10 * time.Millisecond, For: 20 * time.Second, Seed: 1}
	for _, m := range []Member{
		{Callers: 5},
		{Callers: 5, From: 4 * time.Second, To: 12 * time.Second},
		{Callers: 5, Work: 5 * time.Millisecond},
		{Callers: 50, Work: 5 * time.Millisecond, From: 4 * time.Second, To: 12 * time.Second},
	} {
		wishes, end := c.wishes(m), c.For
		if m.To > 0 {
			end = m.To
		}
		var wanted int64
		for _, w := range wishes {
			wanted += w.Wanted
			if at := time.Duration(w.At) * time.Microsecond; at < m.From || at >= end || w.At != w.End || w.Granted != 0 || w.Wanted <= 0 {
				t.Fatalf("%+v wishes %+v", m, w)
			}
		}
		rate := m.Demand(float64(c.Permits) / c.Per.Seconds())
		if due := rate * (end - m.From).Seconds(); math.Abs(float64(wanted)/due-1) > 0.05 {
			t.Errorf("%+v wants %d permits, about %v are due", m, wanted, due)
		}
		if !slices.Equal(wishes, c.wishes(m)) {
			t.Errorf("%+v wants something else the next time", m)
		}
	}
	m := Member{Callers: 1, Work: time.Second}
	other := m
	other.Index = 1
	if m.work(1, 0)() == m.work(1, 1)() || m.work(1, 0)() == other.work(1, 0)() {
		t.Error("two callers work for the same times")
	}
}

// TestEmploy: between two permits a caller works as long as it was to, and asks for one
// permit at a time; when its time is over it gives up.
func TestEmploy(t *testing.T) {
	const waits = 3 * time.Millisecond
	c := Crowd{Permits: 100, Per: time.Second, Tick: 10 * time.Millisecond, For: 100 * time.Millisecond, Seed: 2}
	m := Member{Callers: 1, Work: 4 * time.Millisecond, From: 10 * time.Millisecond, Index: 3}
	g := &gatherer{c: &c, begin: history.Now()}
	g.employ(t.Context(), m, func(ctx context.Context) error { time.Sleep(waits); return ctx.Err() })
	if len(g.Trails) != 1 || g.Trails[0].Index != m.Index || g.Failed != 0 {
		t.Fatalf("%d trails, %d calls failed (%s)", len(g.Trails), g.Failed, g.Err)
	}
	wishes, got := split(g.Trails[0].Takes)
	if !slices.Equal(wishes, c.wishes(m)) || len(got) > len(wishes) {
		t.Errorf("%d wishes and %d permits", len(wishes), len(got))
	}
	for k, take := range got {
		if least := wishes[k].At + int64(k)*waits.Microseconds(); take.At < least-10 || take.Granted != 1 || take.Wanted != 0 {
			t.Errorf("permit %d: %+v, asked for no earlier than %d", k, take, least)
		}
		if k > 0 && take.At < got[k-1].End-1 {
			t.Errorf("asked for permit %d at %d, %d came at %d", k, take.At, k-1, got[k-1].End)
		}
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
	if _, got := split(g.Trails[0].Takes); len(got) != permits || g.Failed != 0 {
		t.Errorf("%d permits, %d calls failed (%s)", len(got), g.Failed, g.Err)
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
	if _, got := split(g.Trails[0].Takes); len(got) != 0 || g.Failed != 2 || g.Err != "boom" {
		t.Errorf("%d permits, %d calls failed (%s), want 2", len(got), g.Failed, g.Err)
	}
}

// split tells what a member wanted from what it got.
func split(takes []Take) (wishes, got []Take) {
	for _, take := range takes {
		if take.Granted > 0 {
			got = append(got, take)
		} else {
			wishes = append(wishes, take)
		}
	}
	return wishes, got
}

// TestRetried: who is denied comes again when it is told to, until it is granted a permit, fails or is
// told to stop.
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
			var granted, last int64
			for i, trail := range g.Trails {
				wishes, got := split(trail.Takes)
				if trail.Index != i || len(wishes) == 0 {
					t.Errorf("%s: trail %d is that of %d, with %d wishes", kind, i, trail.Index, len(wishes))
				}
				for _, take := range got {
					granted, last = granted+take.Granted, max(last, take.End)
					if at := time.Duration(take.At) * time.Microsecond; take.Granted != 1 || at < c.Members[i].From-time.Millisecond {
						t.Errorf("%s: take %+v of member %d", kind, take, i)
					}
				}
			}
			// 40 at once; redis_rate lets more in as time passes, 40 a second.
			if most := 41 + 40*last/1e6; granted < 1 || granted > most || g.Failed != 0 || kind != RedisRate && granted > c.Permits {
				t.Errorf("%s: %d granted, at most %d may be; %d failed (%s)", kind, granted, most, g.Failed, g.Err)
			}
		}
	}
}

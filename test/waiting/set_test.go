package waiting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Who waits for a limit alone and who waits in a Set, and any Set, stand in one line.
func TestSetsAndOthersWaitInOneLine(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		one := limittest.Limiter(t, c, "one", shardlimit.Limit{Permits: 1, Per: 10 * time.Second})
		limittest.MustGet(t, one, 1)
		served := make(chan int, 6)
		for i := range cap(served) {
			other := limittest.Limiter(t, c, fmt.Sprint(i), shardlimit.PerHour(5))
			wait := shardlimit.All(other.N(int64(i)), one.N(1)).Wait
			if i%2 == 0 {
				wait = one.Wait
			}
			go func() {
				limittest.ErrorIs(t, wait(t.Context()), nil)
				served <- i
			}()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		limittest.ErrorIs(t, shardlimit.All(one.N(1)).Wait(limittest.Shortly(t, 50*time.Second)),
			shardlimit.ErrWaitTooLong, "a deadline that those before make impossible")
		for want := range cap(served) {
			if i := <-served; i != want {
				t.Errorf("caller %d was served in place of %d", i, want)
			}
		}
	})
}

// Who leaves while it asks the others gives back what its line served it.
func TestWhoLeavesASetGivesBack(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		one := limittest.Limiter(t, c, "one", shardlimit.Limit{Permits: 1, Per: 10 * time.Second})
		other := limittest.Limiter(t, c, "other", shardlimit.PerHour(90))
		limittest.MustGet(t, one, 1)
		limittest.MustGet(t, other, 1) // so that its shard has state: the first call takes as long as a call may
		f.Bubble[0].Stuck.Store(int64(20 * time.Millisecond))
		for late := range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- shardlimit.All(one.N(1), other.N(2)).Wait(ctx) }()
			time.Sleep(10*time.Second + time.Duration(10*late-5)*time.Millisecond)
			cancel()
			err := <-done
			time.Sleep(time.Second)
			used, before := limittest.Peek(t, one).Used+limittest.Peek(t, other).Used, int64(1)
			if err == nil || used != before {
				t.Errorf("left %d: %d permits are used, %v", late, used, err)
			}
			time.Sleep(20 * time.Second)
			limittest.MustGet(t, one, 1)
		}
	})
}

// A call that wants several permits of a limit with a long window is served when they are there.
func TestASetWaitsNoLongerThanItMust(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		tokens := limittest.Limiter(t, c, "tokens",
			shardlimit.Limit{Permits: 3600, Per: time.Hour, Algorithm: shardlimit.TokenBucket})
		requests := limittest.Limiter(t, c, "requests", shardlimit.PerSecond(1))
		for l, n := range map[*shardlimit.Limiter]int64{tokens: 3598, requests: 1} {
			limittest.MustGet(t, l, n)
		}
		if d, err := requests.Allow(t.Context()); err != nil || d.Allowed { // which is known then
			t.Fatal(d, err)
		}
		began := time.Now()
		limittest.Must(t, shardlimit.All(requests.N(1), tokens.N(5)).Wait(t.Context()))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %v, 3 s suffice", took)
		}
	})
}

// Each limit of a Set waits through an outage by its own policy, and a refusal because of it holds
// no longer than the outage may.
func TestASetWaitsByThePolicyOfEachLimit(t *testing.T) {
	for name, of := range map[string]struct {
		nodes  int
		policy shardlimit.OutagePolicy
	}{"all, WaitOut": {1, shardlimit.WaitOut}, "all, FailLocal": {1, shardlimit.FailLocal}, "half": {nodes: 2}} {
		limittest.RunInBubble(t, name, of.nodes, func(t *testing.T, away limittest.Fleet) {
			here := limittest.Bubbled(t, 1)
			away.Punctual, here.Punctual = true, true
			one := limittest.Limiter(t, away.Client(t, limittest.OnOutage(of.policy), func(c *shardlimit.Config) {
				c.Participants = 10
			}), "one", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: of.nodes})
			every := shardlimit.Limit{Permits: 1, Per: 8 * time.Second}
			other := limittest.Limiter(t, here.Client(t), "other", every)
			limittest.Settled(t, one)
			limittest.MustGet(t, one, 1) // its own part, in an outage
			away.Bubble[of.nodes-1].Down.Store(true)
			time.AfterFunc(5*time.Second, func() { away.Bubble[of.nodes-1].Down.Store(false) })
			switch name {
			case "all, FailLocal": // each limit refuses when it is asked
				limittest.MustGet(t, limittest.Limiter(t, here.Client(t), "other", every), 1)
			case "half": // each is known to refuse
				limittest.MustGet(t, other, 1)
				limittest.Exhaust(t, one, 1)
			}
			var calls sync.WaitGroup
			calls.Go(func() {
				for range 7 { // so that its process has heard that the node is back
					time.Sleep(time.Second)
					_, _ = one.Allow(t.Context())
				}
			})
			defer calls.Wait()
			began := time.Now()
			err := limittest.Set(1, one, other).Wait(limittest.Shortly(t, time.Minute))
			if took := time.Since(began); err != nil || took > 15*time.Second {
				t.Errorf("after %v: %v", took, err)
			}
		})
	}
}

// A crawler: hosts that each have a limit share another one, and more is wanted than that has. No
// host starves, the shared limit is used, and a grant costs little.
func TestACrowdOfSetsSharesALimit(t *testing.T) {
	for i, c := range []struct {
		processes, callers int // of each host
		host               int64
	}{{1, 1, 40}, {1, 3, 40}, {4, 1, 40}, {4, 3, 40}, {1, 1, 240}, {1, 3, 120}} {
		if !extent.Plays(i + 1) { // several processes, and callers of each
			continue
		}
		t.Run(fmt.Sprintf("%d processes, %d callers a host, %d a minute", c.processes, c.callers, c.host),
			func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crowdOfSets(t, c.processes, c.callers, c.host) })
			})
	}
}

func crowdOfSets(t *testing.T, processes, callers int, perHost int64) {
	const hosts, rate, takes = 60, 30, 20 * time.Second
	f := limittest.Bubbled(t, 1)
	f.Bubble[0].Stuck.Store(int64(time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var served [hosts]atomic.Int64
	var wg sync.WaitGroup
	for process := range processes {
		c := f.Client(t)
		shared := limittest.Limiter(t, c, "shared", shardlimit.Limit{Permits: rate, Per: time.Second, Shards: 1})
		family := limittest.Family(t, c, "hosts", shardlimit.Limit{Permits: 1, Per: time.Minute / time.Duration(perHost)})
		for i := process; i < hosts; i += processes {
			for range callers {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 5 * time.Millisecond) // no burst that is shed
					for ctx.Err() == nil {
						set := shardlimit.All(family.Limiter(fmt.Sprint(i)).N(1), shared.N(1))
						if err := set.Wait(ctx); err == nil {
							served[i].Add(1)
						} else if ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
	time.Sleep(5 * time.Second)
	before := f.Bubble[0].Calls.Load()
	for i := range served {
		served[i].Store(0)
	}
	time.Sleep(takes)
	calls := f.Bubble[0].Calls.Load() - before
	var sum, least, most int64 = 0, 1 << 60, 0
	for i := range served {
		n := served[i].Load()
		sum, least, most = sum+n, min(least, n), max(most, n)
	}
	cancel()
	wg.Wait()
	use := float64(sum) / (rate * takes.Seconds())
	t.Logf("%.3f used, %.2f calls a grant, hosts %d to %d", use, float64(calls)/float64(sum), least, most)
	if least == 0 {
		t.Error("a host was never served")
	}
	if use < 0.88 { // by chance .905 to .998 of twelve callers at a host
		t.Errorf("%.3f of the shared limit was used", use)
	}
	if calls*20 > 2*21*sum { // each is two permits
		t.Errorf("%d script calls for %d grants", calls, sum)
	}
}

// Who waits for two limits that others want, too, each for itself, gets them together.
func TestASetGetsBetweenThoseWhoWaitForOneLimit(t *testing.T) {
	for i, c := range []struct {
		a, b    shardlimit.Limit
		windows time.Duration // more of a small limit: chance decides who gets one of a few permits
		least   int64         // of each caller
	}{
		{shardlimit.PerSecond(10), shardlimit.PerSecond(30), 20, 10},
		{shardlimit.PerMinute(6), shardlimit.PerMinute(8), 80, 40},
		{shardlimit.PerMinute(40), shardlimit.Limit{Permits: 50, Per: 10 * time.Minute}, 20, 30},
		{shardlimit.Limit{Permits: 1, Per: 7 * time.Second}, shardlimit.Limit{Permits: 1, Per: 10 * time.Second}, 80, 4},
	} {
		if !extent.Plays(i) {
			continue
		}
		limittest.RunInBubble(t, fmt.Sprint(c.a, " and ", c.b), 2, func(t *testing.T, f limittest.Fleet) {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			client := f.Client(t)
			a, b := limittest.Limiter(t, client, "a", c.a), limittest.Limiter(t, client, "b", c.b)
			var sets [2]atomic.Int64
			var alone atomic.Int64
			loop := func(n *atomic.Int64, wait func(context.Context) error) {
				wg.Go(func() {
					for wait(ctx) == nil {
						n.Add(1)
					}
				})
			}
			for range 3 {
				loop(&alone, a.Wait)
				loop(&alone, b.Wait)
			}
			loop(&sets[0], shardlimit.All(a.N(1), b.N(1)).Wait)
			loop(&sets[1], shardlimit.All(b.N(1), a.N(1)).Wait)
			takes := c.windows * max(c.a.Per, c.b.Per)
			time.Sleep(takes)
			cancel()
			wg.Wait()

			for i := range sets {
				if n := sets[i].Load(); n < c.least {
					t.Errorf("%v: a Set was granted %d times, others %d", c, n, alone.Load())
				}
			}
			had := float64(alone.Load() + 2*(sets[0].Load()+sets[1].Load()))
			all := takes.Seconds() * (float64(c.a.Permits)/c.a.Per.Seconds() + float64(c.b.Permits)/c.b.Per.Seconds())
			if had < 0.9*all {
				t.Errorf("%.0f of %.0f permits were used", had, all)
			}
		})
	}
}

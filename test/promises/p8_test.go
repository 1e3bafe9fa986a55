package promises

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// onASlowNode plays with a family whose keys have so many permits a minute, on a node that needs a
// third of a millisecond for each key, and is so far away. On two processors it would answer two
// callers at a time.
func onASlowNode(t *testing.T, away time.Duration, permits int64,
	play func(t *testing.T, users *shardlimit.Family, node *limittest.BubbleNode)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		far, _ := f.Distant(t, away)
		users := far.Family(t, shardlimit.PerMinute(permits))
		limittest.MustGet(t, users.Limiter("loads the script"), 1)
		f.Bubble[0].Each.Store(int64(time.Millisecond) / 3)
		play(t, users, f.Bubble[0])
	})
}

// P8: far above what a node can serve, as much is served as before, what is served is in time, what
// is not is told so when its time is up, and the node is not taken for away. Callers come back at
// once, or come at a rate that nothing slows down.
func TestLoadAboveWhatCanBeServedIsShed(t *testing.T) {
	onASlowNode(t, 0, 1_000_000, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		var served, shed, late atomic.Int64
		call := func(i int64) {
			began := time.Now()
			d, err := users.Limiter(fmt.Sprint("user ", i%1000)).Allow(t.Context())
			if took := time.Since(began); took > shardlimit.DefaultCallTimeout*3/2 {
				t.Errorf("a call took %s", took)
			}
			switch {
			case err == nil && d.Allowed:
				served.Add(1)
			case errors.Is(err, shardlimit.ErrOverloaded) && errors.Is(err, shardlimit.ErrUnavailable):
				shed.Add(1)
			case errors.Is(err, shardlimit.ErrUnavailable):
				late.Add(1)
			default:
				t.Errorf("%+v, %v", d, err)
			}
		}
		ask := func(callers int, pause time.Duration) (good, bad int64) {
			served.Store(0)
			shed.Store(0)
			var all sync.WaitGroup
			for end, i := time.Now().Add(300*time.Millisecond), 0; i < callers; i++ {
				all.Go(func() {
					for n := int64(i); time.Now().Before(end) && !t.Failed(); n += 7919 {
						if pause == 0 {
							call(n)
							continue
						}
						all.Go(func() { call(n) })
						time.Sleep(pause)
					}
				})
			}
			all.Wait()
			return served.Load(), shed.Load()
		}
		ask(10, 0) // loads the scripts
		peak, refused := ask(10, 0)
		if peak < 200 || refused > 0 {
			t.Errorf("10 callers: %d served, %d shed", peak, refused)
		}
		for name, load := range map[string]struct {
			callers int
			pause   time.Duration
		}{"600 callers": {600, 0}, "10,000 a second": {10, time.Millisecond}} {
			good, bad := ask(load.callers, load.pause)
			t.Logf("%s: %d of %d served, %d shed", name, good, peak, bad)
			if good < peak*95/100 || bad == 0 {
				t.Errorf("%s: %d of %d served, %d shed", name, good, peak, bad)
			}
			if n := late.Swap(0); n > peak/10 { // those on their way when it became too much
				t.Errorf("%s: %d late", name, n)
			}
		}
		limittest.MustGet(t, users.Limiter("after"), 1)
	})
}

// What waits behind a standstill is no overload: once the node, or the process, goes on, it is
// served in the time that it has left. So is who comes then.
func TestWhatWaitedInAStandstillIsServed(t *testing.T) {
	for away, callers := range map[time.Duration]int{0: 200, 2 * time.Millisecond: 600} {
		lasts := 65*time.Millisecond - 5*away // further away there is less time left afterwards
		onASlowNode(t, away, 1_000_000, func(t *testing.T, users *shardlimit.Family, node *limittest.BubbleNode) {
			node.Each.Store(int64(20 * time.Microsecond))
			var all sync.WaitGroup
			var failed, served atomic.Int64
			end := time.Now().Add(2 * time.Second)
			for i := range callers {
				all.Go(func() {
					for n := i; time.Now().Before(end); n += 7919 {
						if _, err := users.Limiter(fmt.Sprint("user ", n%1000)).Allow(t.Context()); err != nil {
							failed.Add(1)
							continue
						}
						served.Add(1)
					}
				})
			}
			for range 3 {
				time.Sleep(500 * time.Millisecond)
				node.Paused.Store(time.Now().Add(lasts).UnixNano())
			}
			all.Wait()
			if failed.Load() > 0 || served.Load() < 1000 {
				t.Errorf("%s away: %d calls were served, and %d failed", away, served.Load(), failed.Load())
			}
		})
	}
}

// Callers who ask for one key at once share what is asked.
func TestCallersOfOneKeyShareWhatIsAsked(t *testing.T) {
	onASlowNode(t, 0, 1000, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		limittest.AtOnce(t.Context(), users, 0, 100)         // the process knows all places of keys
		limittest.MustGet(t, users.Limiter("is not far"), 1) // and how quickly the node answers one
		began := time.Now()
		limittest.Together(300, func(int) (shardlimit.Decision, error) {
			return users.Limiter("ann").Allow(t.Context())
		})
		if took := time.Since(began); took > 5*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		hasLeft(t, users.Limiter("ann"), 700)
	})
}

// A process has nothing of a key for which two callers ask, but from the third on.
func TestFewCallersOfAKeyNeedNothingOfIt(t *testing.T) {
	onASlowNode(t, 0, 10, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		limittest.AtOnce(t.Context(), users, 0, 100)         // the process knows all places of keys
		limittest.MustGet(t, users.Limiter("is not far"), 1) // and how quickly the node answers one
		var all sync.WaitGroup
		for callers, known := range []int{1, 1, 2} { // the key is asked for, and has something
			all.Go(func() { limittest.MustGet(t, users.Limiter("ann"), 1) })
			synctest.Wait()
			if n := limittest.Known(users); n != known {
				t.Errorf("of a key that %d call for at once it knows %d things, not %d", callers+1, n, known)
			}
		}
		all.Wait()
		hasLeft(t, users.Limiter("ann"), 7)
	})
}

// Where a call would be shed, the process does nothing for it but let it wait.
func TestWhoIsCrowdedOutCostsNothing(t *testing.T) {
	onASlowNode(t, 0, 10, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		var crowd sync.WaitGroup
		call := func(from, n int) {
			for i := range n {
				crowd.Go(func() { _, _ = users.Limiter(fmt.Sprint("user ", from+i)).Allow(t.Context()) })
			}
		}
		call(0, 600)
		time.Sleep(shardlimit.DefaultCallTimeout/4*3 + time.Microsecond)
		call(600, 1) // which is shed
		synctest.Wait()
		known := limittest.Known(users)
		call(1000, 300)
		call(300, 300) // for which others wait
		synctest.Wait()
		knows(t, users, known)
		off := users.LimiterWith("free", shardlimit.Limit{Permits: 5, Mode: shardlimit.Off})
		if began := time.Now(); !limittest.MustGet(t, off, 1).Allowed || time.Since(began) > 0 {
			t.Errorf("what is off took %s", time.Since(began))
		}
		limittest.ErrorIs(t, limittest.Err(users.Limiter("").Allow(t.Context())), shardlimit.ErrInvalidName)
		crowd.Wait()
		hasLeft(t, users.Limiter("after"), 10)
	})
}

// A call that is shed is answered by the outage policy before its context ends, and ends when its
// client is closed.
func TestAShedCallHearsItsContextAndClient(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		client := f.Client(t, limittest.OnOutage(shardlimit.FailOpen))
		users := limittest.Family(t, client, "users", shardlimit.PerMinute(10))
		limittest.MustGet(t, users.Limiter("first"), 1) // loads the scripts
		f.Bubble[0].Each.Store(int64(time.Millisecond))
		var crowd sync.WaitGroup
		for i := range 600 {
			if i == 30 { // they come back while the others wait
				time.Sleep(time.Millisecond)
			}
			crowd.Go(func() { _, _ = users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context()) })
		}
		time.Sleep(shardlimit.DefaultCallTimeout/4*3 + time.Microsecond)
		hasty := limittest.Shortly(t, 20*time.Millisecond)
		if d, err := users.Limiter("hasty").Allow(hasty); err != nil || !d.Degraded {
			t.Errorf("with a context of 20 ms: %+v, %v", d, err)
		}
		began := time.Now()
		crowd.Go(func() {
			limittest.ErrorIs(t, limittest.Err(users.Limiter("last").Allow(t.Context())), shardlimit.ErrClosed)
			if took := time.Since(began); took > 10*time.Millisecond {
				t.Errorf("after Close it took %s", took)
			}
		})
		time.Sleep(5 * time.Millisecond)
		client.Close()
		crowd.Wait()
	})
}

// A Set asks nobody if one of its limits would shed the call, also where another could be joined:
// what that granted would be missing to others, and have to be given back.
func TestACrowdedOutSetAsksNobody(t *testing.T) {
	onASlowNode(t, 0, 10, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		var crowd sync.WaitGroup
		call := func(n int, key func(i int) string) {
			for i := range n {
				crowd.Go(func() { _, _ = users.Limiter(key(i)).Allow(t.Context()) })
			}
		}
		hot := users.Limiter("hot")
		call(600, func(i int) string { return fmt.Sprint("user ", i) })
		time.Sleep(shardlimit.DefaultCallTimeout / 8 * 5)
		call(9, func(int) string { return "hot" })
		time.Sleep(shardlimit.DefaultCallTimeout/8 + time.Microsecond)
		set := shardlimit.All(hot.N(1), users.Limiter("other").N(1))
		crowd.Go(func() { limittest.ErrorIs(t, limittest.Err(set.Allow(t.Context())), shardlimit.ErrOverloaded) })
		synctest.Wait()
		limittest.MustGet(t, hot, 1) // it joins the others
		crowd.Wait()
	})
}

// A denial that a process remembers is answered at once, however much waits.
func TestADenialFromMemoryIsNotShed(t *testing.T) {
	onASlowNode(t, 0, 10, func(t *testing.T, users *shardlimit.Family, _ *limittest.BubbleNode) {
		with := func(key string, mode shardlimit.Mode) *shardlimit.Limiter {
			return users.LimiterWith(key, shardlimit.Limit{Permits: 5, Mode: mode})
		}
		own, plain := with("its own", shardlimit.Enforced), users.Limiter("plain")
		for range 6 {
			_, _ = own.AllowN(t.Context(), 5)
			_, _ = plain.AllowN(t.Context(), 10)
		}
		var crowd sync.WaitGroup
		for i := range 601 {
			if i == 600 { // which is shed
				time.Sleep(shardlimit.DefaultCallTimeout/4*3 + time.Microsecond)
			}
			crowd.Go(func() { _, _ = users.Limiter(fmt.Sprint("user ", i)).Allow(t.Context()) })
		}
		synctest.Wait()
		other := users.Limiter("other").N(1)
		began := time.Now()
		for name, call := range map[string]func(context.Context) (shardlimit.Decision, error){
			"own": own.Allow, "plain": plain.Allow,
			"a set with its own":  shardlimit.All(other, own.N(1)).Allow,
			"a set with plain":    shardlimit.All(other, plain.N(1)).Allow,
			"a set with a closed": shardlimit.All(other, with("closed", shardlimit.Closed).N(1)).Allow,
		} {
			if d, err := call(t.Context()); err != nil || d.Allowed || time.Since(began) > 0 {
				t.Errorf("%s: %+v, %v, after %s", name, d, err, time.Since(began))
			}
		}
		crowd.Wait()
	})
}

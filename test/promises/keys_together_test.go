package promises

import (
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// lateReplies plays two processes that use up a key; the replies to the first come late.
func lateReplies(t *testing.T, play func(t *testing.T, key, others *shardlimit.Limiter, node *limittest.Distance)) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		late, nodes := f.Distant(t, 0)
		users, others := late.Family(t, shardlimit.PerHour(10)), f.Family(t, shardlimit.PerHour(10))
		limittest.AtOnce(t.Context(), users, 0, 100)         // the process knows all places of keys
		limittest.MustGet(t, users.Limiter("is not far"), 1) // and how quickly the node answers one
		limittest.MustGet(t, others.Limiter("ann"), 10)
		play(t, users.Limiter("ann"), others.Limiter("ann"), nodes[0])
	})
}

// hears calls once, and checks whether that is granted.
func hears(t *testing.T, l *shardlimit.Limiter, want bool) {
	if d, err := l.Allow(t.Context()); err != nil || d.Allowed != want {
		t.Errorf("%+v, %v", d, err)
	}
}

// oneIsRefused has two calls ask for the key at once: the first is refused, and hears of it after
// 10 ms; then others reset the key, and the second is granted, and hears of it so late.
func oneIsRefused(t *testing.T, key, others *shardlimit.Limiter, node *limittest.Distance,
	late time.Duration) *sync.WaitGroup {
	both := &sync.WaitGroup{}
	node.Back.Store(int64(10 * time.Millisecond))
	both.Go(func() { hears(t, key, false) })
	time.Sleep(time.Millisecond)
	limittest.Must(t, others.Reset(t.Context()))
	node.Back.Store(int64(late))
	both.Go(func() { hears(t, key, true) })
	return both
}

// P4: of two who ask for a key at once one is refused and one is granted, as others reset it in
// between. Whichever is answered first, the next call is granted.
func TestOfTwoWhoAskForAKeyOneFindsPermits(t *testing.T) {
	for _, late := range []time.Duration{5 * time.Millisecond, 15 * time.Millisecond} {
		lateReplies(t, func(t *testing.T, key, others *shardlimit.Limiter, node *limittest.Distance) {
			both := oneIsRefused(t, key, others, node, late)
			both.Wait()
			hears(t, key, true)
		})
	}
}

// P4: the same, and in between the process has something of the key.
func TestARefusalIsNotBelievedByWhatComesBetween(t *testing.T) {
	lateReplies(t, func(t *testing.T, key, others *shardlimit.Limiter, node *limittest.Distance) {
		both := oneIsRefused(t, key, others, node, 10*time.Millisecond)
		time.Sleep(9500 * time.Microsecond) // the first was answered
		both.Go(func() { limittest.Must(t, key.Wait(t.Context())) })
		time.Sleep(time.Millisecond)
		began := time.Now()
		hears(t, key, true)
		both.Wait()
		if took := time.Since(began); took > 20*time.Millisecond {
			t.Errorf("who waits was served after %s", took)
		}
	})
}

// A process that resets a key while it is refused does not believe that refusal.
func TestARefusalBeforeAResetIsNotBelieved(t *testing.T) {
	lateReplies(t, func(t *testing.T, key, _ *shardlimit.Limiter, node *limittest.Distance) {
		node.Back.Store(int64(10 * time.Millisecond))
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { hears(t, key, false) })
			time.Sleep(time.Millisecond)
		}
		node.Back.Store(0)
		limittest.Must(t, key.Reset(t.Context()))
		both.Wait()
		hears(t, key, true)
	})
}

// Callers of an exhausted key who overlap all the time are answered from memory, also after the
// process had something of the key.
func TestCallersWhoOverlapHearOfARefusal(t *testing.T) {
	lateReplies(t, func(t *testing.T, key, _ *shardlimit.Limiter, node *limittest.Distance) {
		node.Back.Store(int64(2 * time.Millisecond))
		before, end := node.Calls.Load(), time.Now().Add(900*time.Millisecond)
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for time.Now().Before(end) {
					hears(t, key, false)
					time.Sleep(100 * time.Microsecond)
				}
			})
			time.Sleep(750 * time.Microsecond) // so both are under way then
		}
		_ = key.Limit() // for which the process needs a target
		both.Wait()
		if calls := node.Calls.Load() - before; calls > 5 {
			t.Errorf("%d calls were made", calls)
		}
	})
}

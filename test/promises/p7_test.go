package promises

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Whoever is alone and sleeps RetryAfter succeeds, for one permit and for many,
// whether Redis or the memory of the process answered.
func TestSleepingRetryAfterSucceeds(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, n := range []int64{1, 3, 7, 10} {
			limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
				l := f.Limiter(t, shardlimit.Limit{Permits: 10, Per: 200 * time.Millisecond, Shards: shards})
				for range 3 {
					limittest.DrainSlowly(t, l)
					var d shardlimit.Decision
					for range 4 { // the later answers come from memory
						if d = limittest.Denied(t, l, n); d.RetryAfter <= 0 || d.RetryAfter > 250*time.Millisecond {
							t.Fatalf("%+v", d)
						}
					}
					time.Sleep(d.RetryAfter)
					limittest.MustGet(t, l, n)
				}
			})
		}
	}
}

// A participant that has had its part and asks for several permits is told when it is due for them
// again, not when the shard has as many: until then they are for others. A node that is away is no
// place to come back to: who is paced elsewhere is told when that is. What is free and kept for
// others is not told as full.
func TestRetryAfterHeedsThePartBesideANodeThatIsAway(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 200, Per: time.Second, Shards: 2}
		hog := f.Limiter(t, limit)
		others := limittest.NewDemand(t, 4*time.Millisecond, f.Limiter(t, limit))
		held, denied, soon := 0, 0, 0
		ask := func(seen func(many shardlimit.Decision)) {
			for range 3000 {
				time.Sleep(time.Millisecond)
				d, err := hog.AllowN(t.Context(), 20)
				if err == nil && !d.Allowed && !d.Degraded {
					seen(d)
				}
				if d.Remaining >= 20 && d.Reason == shardlimit.ReasonFull {
					t.Errorf("%+v", d)
				}
			}
		}
		ask(func(many shardlimit.Decision) {
			if paced := limittest.Paced(hog); many.RetryAfter < paced {
				t.Errorf("twenty permits in %s, and none for %s", many.RetryAfter, paced)
			} else if paced > 0 && many.Reason == shardlimit.ReasonHeldForOthers {
				held++
			}
		})
		f.Bubble[1].Down.Store(true)
		ask(func(many shardlimit.Decision) {
			denied++
			if many.RetryAfter < 2*time.Millisecond {
				soon++
			}
		})
		others.Stop()
		if held == 0 || denied < 2000 || soon > denied/20 {
			t.Errorf("%d times paced; then %d denied, and %d told to come again at once", held, denied, soon)
		}
	})
}

// What leaves the log of a lowered limit does not become free until enough has left.
func TestPeekOfALoweredLimitCountsWhatGetsFree(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerHour(10))
		for range 10 { // one each minute
			limittest.MustGet(t, l, 1)
			time.Sleep(time.Minute)
		}
		limittest.Must(t, l.SetLimit(t.Context(), shardlimit.PerHour(3)))
		if after := limittest.Peek(t, l).RetryAfter; after != 57*time.Minute {
			t.Errorf("the first in %s", after)
		}
	})
}

// leftAfterEach makes ten calls at once that must be allowed, and returns what they said is left,
// in order.
func leftAfterEach(t *testing.T, call func() (shardlimit.Decision, error)) (left []int64) {
	t.Helper()
	var each [10]int64
	s := limittest.Together(10, func(i int) (shardlimit.Decision, error) {
		d, err := call()
		each[i] = d.Remaining
		return d, err
	})
	if s.Allowed != 10 {
		t.Errorf("%d of ten were allowed; %v", s.Allowed, s.Err)
	}
	return slices.Sorted(slices.Values(each[:]))
}

// Of grants that one reply brings, each says what is left after it: exactly one caller sees the
// quota used up.
func TestRemainingOfGrantsThatComeTogether(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *shardlimit.Limiter) (shardlimit.Decision, error){
		"Allow": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) { return l.Allow(t.Context()) },
		"AllowUpTo": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.AllowUpTo(t.Context(), 1)
		},
		"participant": func(t *testing.T, l *shardlimit.Limiter) (shardlimit.Decision, error) {
			return l.As("me", 1).Allow(t.Context())
		},
	} {
		for _, algorithm := range limittest.Algorithms {
			limittest.RunInBubble(t, fmt.Sprint(name, " ", algorithm), 1, func(t *testing.T, f limittest.Fleet) {
				f, _ = f.Distant(t, time.Millisecond)
				limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1, Algorithm: algorithm}
				l := f.Limiter(t, limit)
				left := leftAfterEach(t, func() (shardlimit.Decision, error) { return call(t, l) })
				if !slices.Equal(left, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) { // the first alone, nine behind it
					t.Errorf("%v are left", left)
				}
			})
		}
	}
}

// On several shards it is what this process heard of, less what its own calls got, and the share of
// a shard that was not heard from: who begins is not told that little is left, who was granted the
// last of one shard not that others are empty, and nobody of more than there is.
func TestRemainingOfGrantsOnSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := limittest.Bubbled(t, 4).Distant(t, time.Millisecond)
		limit := shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 4}
		l := f.Limiter(t, limit)
		for i := range int64(100) {
			d, err := l.Allow(t.Context())
			if err != nil || !d.Allowed || d.Remaining != 99-i {
				t.Fatalf("call %d: %+v, %v", i, d, err)
			}
			if last := i == 99; (d.NextAfter > 0) != last || d.NextAfter > d.ResetAfter {
				t.Errorf("call %d: the next in %s, all in %s", i, d.NextAfter, d.ResetAfter)
			}
		}
		for _, who := range []*shardlimit.Limiter{l, f.Limiter(t, limit)} {
			if d := limittest.Denied(t, who, 1); d.Remaining != 0 || d.NextAfter != 0 {
				t.Errorf("%+v", d)
			}
		}
		time.Sleep(time.Hour) // all is free again, and nobody was asked
		if d := limittest.MustGet(t, l, 1); d.Remaining != 99 {
			t.Errorf("after a rest: %+v", d)
		}
		if d, err := l.AllowUpTo(t.Context(), 89); err != nil || d.Remaining != 10 {
			t.Errorf("%+v, %v", d, err)
		}
		left := leftAfterEach(t, func() (shardlimit.Decision, error) { return l.Allow(t.Context()) })
		if left[0] != 0 || left[9] > 9 {
			t.Errorf("%v are left", left)
		}
	})
}

// When the last permit was granted it is told when there is one again: then, and not before.
func TestWhenThereIsAPermitAgain(t *testing.T) {
	for algorithm := shardlimit.SlidingLog; algorithm <= shardlimit.TokenBucket; algorithm++ {
		limittest.RunInBubble(t, algorithm.String(), 1, func(t *testing.T, f limittest.Fleet) {
			f, _ = f.Distant(t, time.Millisecond)
			l := f.Limiter(t, shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1, Algorithm: algorithm})
			var d shardlimit.Decision
			for d.Remaining = 1; d.Remaining > 0; {
				d = limittest.MustGet(t, l, 1)
				time.Sleep(time.Second / 10)
			}
			time.Sleep(d.NextAfter - time.Second/10 - time.Second/5)
			limittest.Denied(t, l, 1)
			time.Sleep(time.Second / 5)
			limittest.MustGet(t, l, 1)
		})
	}
}

// What lies on a node that is away is not there for anybody.
func TestRemainingIsWithoutNodesThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, nodes := limittest.Bubbled(t, 2).Distant(t, time.Millisecond)
		l := f.Limiter(t, shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
		if d := limittest.MustGet(t, l, 1); d.Remaining != 99 {
			t.Fatalf("%+v", d)
		}
		nodes[1].Stalled.Store(true)
		left := int64(100)
		for range 20 { // until it has failed often enough to be left alone
			if d, err := l.AllowN(t.Context(), 60); err == nil && d.Allowed { // more than one of them has
				t.Fatalf("%+v", d)
			}
			d := limittest.MustGet(t, l, 1)
			if left = d.Remaining; left < 50 {
				break
			}
		}
		if left >= 50 {
			t.Errorf("%d remain, half of the limit is away", left)
		}
	})
}

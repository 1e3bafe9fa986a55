package promises

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Whoever is alone and sleeps RetryAfter succeeds, for one permit and for many,
// whether Redis or the memory of the process answered.
func TestSleepingRetryAfterSucceeds(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		for _, n := range []int64{1, 3, 7, 10} {
			t.Run(fmt.Sprintf("%d of 10 over %d shards", n, shards), func(t *testing.T) {
				t.Parallel()
				l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
					shardlimit.Limit{Permits: 10, Per: 200 * time.Millisecond, Shards: shards})
				for range 3 {
					limittest.DrainSlowly(t, l)
					for range 3 { // the later answers come from memory
						d, err := l.AllowN(t.Context(), n)
						if err != nil {
							t.Fatal(err)
						}
						if d.Allowed {
							break // the machine was slow
						}
						if d.RetryAfter <= 0 || d.RetryAfter > 250*time.Millisecond {
							t.Fatalf("%+v", d)
						}
					}
					d, err := l.AllowN(t.Context(), n)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						continue
					}
					time.Sleep(d.RetryAfter)
					if d, err := l.AllowN(t.Context(), n); err != nil || !d.Allowed {
						t.Fatalf("after RetryAfter: %+v, %v", d, err)
					}
				}
			})
		}
	}
}

// RetryAfter is not earlier than the permits come: by the shards' own forecast,
// read afterwards, n permits are not free 5 % before it.
func TestRetryAfterIsNotEarly(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 4} {
		for _, n := range []int64{1, 5, 10} {
			t.Run(fmt.Sprintf("%d of 10 over %d shards", n, shards), func(t *testing.T) {
				t.Parallel()
				l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l",
					shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: shards})
				limittest.DrainSlowly(t, l)
				for i := range 3 {
					d, err := l.AllowN(t.Context(), n)
					if err != nil || d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
					st := limittest.Peek(t, l)
					if early := st.RetryAfter - d.RetryAfter; n == 1 && early > 3*time.Second {
						t.Errorf("answer %d: RetryAfter is %s, the first permit comes in %s", i, d.RetryAfter,
							st.RetryAfter)
					}
					if early := st.ResetAfter - d.RetryAfter; n == 10 && early > 20*time.Millisecond {
						t.Errorf("answer %d: RetryAfter is %s, the last permit comes in %s", i, d.RetryAfter,
							st.ResetAfter)
					}
				}
			})
		}
	}
}

// A participant that has had its part and asks for several permits is told when it is due for them
// again, not when the shard has as many: until then they are for others.
func TestRetryAfterForSeveralPermitsHeedsThePart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 1)
		limit := shardlimit.Limit{Permits: 200, Per: time.Second, Shards: 1}
		hog := limittest.Limiter(t, f.Client(t), "l", limit)
		others := limittest.NewDemand(t, 4*time.Millisecond, limittest.Limiter(t, f.Client(t), "l", limit))
		held := 0
		for range 3000 {
			time.Sleep(time.Millisecond)
			many, err := hog.AllowN(t.Context(), 20)
			if err != nil {
				t.Fatal(err)
			}
			if many.Allowed {
				continue
			}
			if paced := limittest.Paced(hog); many.RetryAfter < paced {
				t.Errorf("twenty permits in %s, and none for %s", many.RetryAfter, paced)
			} else if paced > 0 {
				held++
			}
		}
		others.Stop()
		if held == 0 {
			t.Error("it was never paced")
		}
	})
}

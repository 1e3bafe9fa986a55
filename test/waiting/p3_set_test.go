package waiting

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A Set has one deadline, whatever its limits are: also after a rest, when each has to find out
// whether what it knows still holds, and all nodes stall.
func TestASetHasOneDeadlineAfterARest(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for what, make := range map[string]func(*testing.T, *shardlimit.Client, int) *shardlimit.Limiter{
		"limits": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Limiter(t, c, fmt.Sprint("l", i), limit)
		},
		"keys of a family": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Family(t, c, "f", limit).Limiter(fmt.Sprint("user ", i))
		},
		"keys of families": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			return limittest.Family(t, c, fmt.Sprint("f", i), limit).Limiter("user")
		},
		"deleted limits": func(t *testing.T, c *shardlimit.Client, i int) *shardlimit.Limiter {
			l := limittest.Limiter(t, c, fmt.Sprint("l", i), limit)
			if err := limittest.Limiter(t, c, l.Name(), limit).Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			return l
		},
	} {
		for _, rest := range []time.Duration{0, 6 * time.Second, 70 * time.Second, time.Hour} {
			t.Run(fmt.Sprint(what, " after ", rest), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, net := limittest.Bubbled(t, 3).Distant(t, time.Millisecond)
					c := f.Client(t)
					var all []*shardlimit.Limiter
					for i := range 8 {
						l := make(t, c, i)
						_, _ = l.Allow(t.Context())
						all = append(all, l)
					}
					set := limittest.Set(1, all...)
					_, _ = set.Allow(t.Context())
					time.Sleep(rest)
					for _, n := range net {
						n.Stalled.Store(true)
					}
					for range 3 {
						began := time.Now()
						_, err := set.Allow(t.Context())
						if took := time.Since(began); took > atMost {
							t.Errorf("returned after %v: %v", took, err)
						}
					}
					for _, n := range net {
						n.Stalled.Store(false)
					}
					time.Sleep(3 * time.Second)
				})
			})
		}
	}
}

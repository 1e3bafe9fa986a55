package shardlimit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A cluster moves slots the classic way: a slot on its way takes no new key at the server
// that gives it away, and no call with several keys of which some are missing. All shards
// of a limit serve on meanwhile, whichever of their keys exist, and are never over.
func TestALimitServesWhileAllItsSlotsAreOnTheirWay(t *testing.T) {
	t.Parallel() // it waits most of its time: for the servers, which tell each other of a migration
	f, cluster := clustered(t, 0)
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			for name, used := range map[string]int{"new": 0, "used once": 1, "used often": 60} {
				t.Run(name, func(t *testing.T) { serveOnTheWay(t, f, cluster, algorithm, used) })
			}
		})
	}
	t.Run("under load", func(t *testing.T) { moveSlotsUnderLoad(t, f, cluster) })
}

// serveOnTheWay takes permits of a limit before, during and after a migration: what the
// shards hold in the end is what callers were granted, and nothing more is to be had.
func serveOnTheWay(t *testing.T, f fleet, cluster *redistest.Cluster, algorithm shardlimit.Algorithm, used int) {
	limit := shardlimit.Limit{Permits: 240, Per: time.Hour, Shards: 4, Algorithm: algorithm}
	if algorithm == shardlimit.LeakyBucket || algorithm == shardlimit.TokenBucket {
		limit.Burst = limit.Permits
	}
	l := limiter(t, f.client(t), fmt.Sprint(algorithm, used), limit)
	granted := int64(0)
	take := func(when string, n int) {
		t.Helper()
		for i := range n {
			d, err := l.Allow(t.Context())
			if err != nil || !d.Allowed || d.Degraded {
				t.Fatalf("%s, call %d, after %d permits: %+v, %v", when, i, granted, d, err)
			}
			granted += d.Granted
		}
		st := peek(t, l)
		for _, s := range st.Shards {
			if s.Err != nil {
				t.Errorf("%s: Peek: %v", when, s.Err)
			}
		}
	}
	take("before", used)
	migrations := begin(cluster, peek(t, l))
	take("while no key has moved", 60)
	for _, m := range migrations {
		m.MoveKeys()
	}
	take("while all keys have moved", 60)
	d, err := l.Allow(t.Context())
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := l.Refund(t.Context(), d); err != nil {
		t.Errorf("Refund: %v", err)
	}
	for _, m := range migrations {
		m.Finish()
	}
	l = limiter(t, f.client(t), fmt.Sprint(algorithm, used), limit)
	d, err = l.AllowUpTo(t.Context(), limit.Permits)
	if granted += d.Granted; err != nil || granted > limit.Permits+1 || granted < limit.Permits {
		t.Errorf("%d of %d permits granted, %+v, %v", granted, limit.Permits, d, err)
	}
}

// moveSlotsUnderLoad moves the slots of a limit that is in full use to and fro: no call fails.
func moveSlotsUnderLoad(t *testing.T, f fleet, cluster *redistest.Cluster) {
	limit := shardlimit.Limit{Permits: 300, Per: 300 * time.Millisecond, Shards: 3}
	limiters := f.group(t, 3, "load", limit)
	callers := newTraffic(t)
	callers.start(2, limiters...)
	awaitAllShards(t, limiters[0])
	for range 2 {
		from := history.Now()
		migrations := begin(cluster, peek(t, limiters[0]))
		served := func(when string) {
			from = history.Now()
			awaitThat(t, "permits are granted "+when, func() bool {
				return history.Total(since(from, callers.record.Ops())) >= 2*limit.Permits
			})
		}
		served("while no key has moved")
		for _, m := range migrations {
			m.MoveKeys()
		}
		served("while all keys have moved")
		for _, m := range migrations {
			m.Finish()
		}
	}
	ops, err := callers.stop()
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := keepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}

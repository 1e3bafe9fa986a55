package shardlimit_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// Failover can be switched on and off while a limit is used: it moves to other shards, and no
// window is over.
func TestFailoverIsSwitchedUnderLoad(t *testing.T) {
	t.Parallel()
	limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
	fl, _ := independent(t, 3)
	var limiters []*shardlimit.Limiter
	for range 3 {
		limiters = append(limiters, limiter(t, fl.client(t), "l", limit))
	}
	settled(t, limiters[0])
	calls := newTraffic(t)
	calls.start(3, limiters...)
	for i, on := range []bool{true, false, true} {
		next := limit
		next.Failover = on
		l := limiters[i]
		if err := l.SetLimit(t.Context(), next); err != nil {
			t.Fatalf("failover %v: %v", on, err)
		}
		for _, l := range limiters {
			within(t, patience, "it is settled so", func() bool {
				st := peek(t, l)
				return st.Settled && st.Limit.Failover == on && sumOn(st, "") == limit.Permits
			})
		}
	}
	ops, err := calls.stop()
	if err != nil {
		t.Error(err)
	}
	if worst, ok := history.Check(limit.Per, limit.Permits, ops); !ok {
		t.Errorf("over: %v", worst)
	}
	if f, err := fl.client(t).Family(t.Context(), "f", limit); err != nil {
		t.Error(err)
	} else {
		for i, on := range []bool{true, false} {
			k := f.Limiter("ann")
			drain(t, k)
			next := limit
			next.Failover = on
			if err := f.SetLimit(t.Context(), next); err != nil {
				t.Fatalf("family, change %d: %v", i, err)
			}
			within(t, patience, "the key is served so", func() bool {
				d, err := k.Allow(t.Context())
				return err == nil && d.Allowed && k.Limit().Failover == on
			})
		}
	}
}

// With fewer than three nodes Failover does nothing, and says so.
func TestFailoverNeedsThreeNodes(t *testing.T) {
	t.Parallel()
	fl, _ := independent(t, 2)
	l := limiter(t, fl.client(t), "l", shardlimit.Limit{Permits: 10, Per: time.Second, Failover: true})
	if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if l.Limit().Failover {
		t.Error("the limit in force claims Failover")
	}
}

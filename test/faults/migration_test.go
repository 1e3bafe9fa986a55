package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A cluster moves slots the classic way: a server executes no call with several keys of which some
// are missing. Whatever happens while all slots of a limit are on their way, the shards hold in the
// end what callers were granted, and the rest is to be had.
func TestNothingIsLostOrDoubledWhileAllSlotsMove(t *testing.T) {
	t.Parallel() // it waits most of its time: for the servers, which tell each other of a migration
	f, cluster := limittest.Clustered(t, 0)
	t.Run("all of a limit", func(t *testing.T) { moveAllSlots(t, f, cluster) })
	t.Run("under load", func(t *testing.T) { moveSlotsUnderLoad(t, f, cluster) })
}

// movedLimit is a limit all of whose slots move.
type movedLimit struct {
	*shardlimit.Limiter
	granted, unknown int64 // unknown: what calls asked for that got no answer
}

// call takes permits, as many as can be had in some calls.
func (m *movedLimit) call(t *testing.T, calls int) {
	t.Helper()
	for range calls {
		d, err := m.Allow(t.Context())
		if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) || err == nil && !d.Allowed {
			t.Fatalf("%s after %d permits: %+v, %v", m.Limit().Algorithm, m.granted, d, err)
		}
		if m.granted += d.Granted; err != nil {
			m.unknown++
		}
	}
}

// moveAllSlots takes permits of a log and of buckets before and during a migration. A call whose
// slot is on its way tries until its time is up.
func moveAllSlots(t *testing.T, f limittest.Fleet, cluster *redistest.Cluster) {
	var limits []*movedLimit
	add := func(algorithm shardlimit.Algorithm, used int) {
		limit := shardlimit.Limit{Permits: 240, Per: 24 * time.Hour, Shards: 1, Algorithm: algorithm}
		if algorithm == shardlimit.LeakyBucket || algorithm == shardlimit.TokenBucket {
			limit.Burst = limit.Permits
		}
		m := &movedLimit{Limiter: limittest.Limiter(t, f.Client(t, limittest.PatientFor(time.Second)),
			fmt.Sprint(algorithm, used), limit)}
		m.call(t, used)
		limits = append(limits, m)
	}
	for _, used := range []int{0, 1, 60} {
		add(shardlimit.SlidingLog, used)
	}
	add(shardlimit.TokenBucket, 1)
	add(shardlimit.LeakyBucket, 1)
	var migrations []*redistest.Migration
	for _, m := range limits {
		migrations = append(migrations, limittest.BeginMigrations(cluster, limittest.Peek(t, m.Limiter))...)
		m.call(t, 2)
	}
	for i, m := range limits {
		migrations[i].MoveKeys()
		m.call(t, 2)
		migrations[i].Finish()
	}
	for _, m := range limits {
		l := limittest.Limiter(t, f.Client(t), m.Name(), m.Limit())
		d, err := l.AllowUpTo(t.Context(), m.Limit().Permits)
		m.granted += d.Granted
		if want := m.Limit().Permits; err != nil || m.granted > want || m.granted+m.unknown < want {
			t.Errorf("%s: %d of %d permits granted, %d unknown, %+v, %v", m.Name(), m.granted, want, m.unknown, d, err)
		}
	}
}

// moveSlotsUnderLoad moves the slots of a limit in full use to and fro, one after the other.
func moveSlotsUnderLoad(t *testing.T, f limittest.Fleet, cluster *redistest.Cluster) {
	limit := shardlimit.Limit{Permits: 300, Per: 300 * time.Millisecond, Shards: 3}
	limiters := f.Group(t, 3, "load", limit, func(c *shardlimit.Config) { c.CallTimeout = 5 * time.Second })
	callers := limittest.NewTraffic(t)
	callers.Dying = true // what a shard on its way granted cannot be given back
	callers.Start(2, limiters...)
	awaitAllShards(t, limiters[0])
	for range 2 {
		for _, shard := range limittest.Peek(t, limiters[0]).Shards {
			migration := cluster.BeginMigration(shard.Slot, shard.Slot, (shard.Slot*3/16384+1)%3)
			served := func(when string) {
				from := history.Now()
				limittest.AwaitThat(t, "permits are granted "+when, func() bool {
					return history.Total(limittest.Since(from, callers.Record.Ops())) >= limit.Permits
				})
			}
			served("while no key has moved")
			migration.MoveKeys()
			served("while all keys have moved")
			migration.Finish()
		}
	}
	ops, err := callers.Stop()
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := limittest.KeepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}

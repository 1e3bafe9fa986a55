package faults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Every slot moves to another master and back while the limit is in use. The window is so long that
// nothing leaves it: what callers were granted and kept must be exactly what the shards hold at the
// end.
func TestShardsMoveWithTheirSlots(t *testing.T) {
	t.Parallel()
	f, cluster := limittest.Clustered(t, 0)
	limit := shardlimit.Limit{Permits: 50_000_000, Per: 10 * time.Minute, Shards: 6}
	// A call that is given up by its timeout may have spent its permits: they
	// would be held without having been granted, and not for want of care.
	patient := func(c *shardlimit.Config) { c.CallTimeout = limittest.Patience }
	limiters := f.Group(t, 3, "long", limit, patient)
	callers := busy(t, 6, 5*time.Millisecond, func(who int, i int64) (shardlimit.Decision, error) {
		return limiters[who/2].AllowN(context.Background(), 1+i%3)
	})
	for to := range 3 { // slots of the first shard, and some others
		cluster.Migrate(to*5000, to*5000+500, (to+1)%3)
	}
	for i, s := range limittest.Peek(t, limiters[0]).Shards {
		cluster.Migrate(s.Slot, s.Slot, i%3)
	}
	callers.stop()
	limittest.Uses(t, limiters[0], callers.granted.Load())
	t.Logf("%d calls", callers.calls.Load())
}

// Calls that meet a change of masters are served by the shards of the others. A planned failover
// loses nothing: the replica has the whole log. A master that dies takes along what its replica has
// not heard of yet, at most what its shards may grant in a window.
func TestTheLimitHoldsAcrossAFailover(t *testing.T) {
	t.Parallel()
	f, cluster := limittest.Clustered(t, 1, redistest.Args("--cluster-require-full-coverage", "no"))
	limit := shardlimit.Limit{Permits: 600, Per: 500 * time.Millisecond, Shards: 6}
	across := func(name string, lost int64, loss shardlimit.LossPolicy, failover func()) {
		t.Run(name, func(t *testing.T) {
			limiters := f.Group(t, 3, name, limit, limittest.AfterLoss(loss))
			callers := limittest.NewTraffic(t)
			callers.Dying = lost > 0
			callers.Start(2, limiters...)
			awaitAllShards(t, limiters[0])
			failover()
			before := callers.Admitted.Load()
			awaitAllShards(t, limiters[1])
			limittest.AwaitThat(t, "the whole limit is admitted once more",
				func() bool { return callers.Admitted.Load()-before >= limit.Permits })
			time.Sleep(limit.Per)
			ops := callers.Ended(t)
			most := limit
			most.Permits += lost
			worst := limittest.KeepsTo(t, most, ops)
			t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
		})
	}
	// What a planned failover loses by mistake, no quarantine may hide.
	across("planned", 0, shardlimit.Resume, func() {
		for part := range 3 {
			cluster.Failover(part)
		}
	})
	across("killed", limit.Permits/3, shardlimit.Quarantine, func() {
		cluster.Masters()[0].Kill()
		cluster.Failover(0)
	})
}

// A master that is away is told once, although many slots are away with it, and with one of them.
func TestTheLogNamesASlotOfWhatIsAway(t *testing.T) {
	t.Parallel()
	f, cluster := limittest.Clustered(t, 0)
	log, logs := logged(slog.LevelInfo)
	users := f.Family(t, shardlimit.PerSecond(100), logs)
	call := func() (failed int) {
		_, errs := limittest.AtOnce(t.Context(), users, 0, 100)
		return len(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
	}
	call()
	cluster.Masters()[0].Kill()
	limittest.AwaitThat(t, "keys of several slots are away", func() bool { return call() > 20 })
	call()
	if lines := log.count("node=cluster"); lines == 0 || lines > 4 || log.count(" slot=") != lines {
		t.Errorf("it says: %s", log)
	}
}

// A cluster moves slots the classic way: a server executes no call with several keys of which some
// are missing. Whatever happens while all slots of a limit are on their way, the shards hold in the
// end what callers were granted, of logs and of buckets, and the rest is to be had. A call whose
// slot is on its way tries until its time is up.
func TestNothingIsLostOrDoubledWhileAllSlotsMove(t *testing.T) {
	t.Parallel() // it waits most of its time: for the servers, which tell each other of a migration
	f, cluster := limittest.Clustered(t, 0)
	var limits []*movedLimit
	add := func(algorithm shardlimit.Algorithm, used int) {
		limit := shardlimit.Limit{Permits: 240, Per: 24 * time.Hour, Shards: 1, Algorithm: algorithm}
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

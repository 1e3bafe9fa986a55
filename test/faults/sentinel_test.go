package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A replica is promoted in place of a master that died: what that granted counts.
func TestAFailoverOfSentinelKeepsTheLog(t *testing.T) {
	t.Parallel()
	set := redistest.NewSentinel(t, 1)
	l := of(t, set.ClientOption()).Limiter(t, shardlimit.PerHour(100), limittest.AfterLoss(shardlimit.Quarantine))
	limittest.Settled(t, l)
	limittest.MustGet(t, l, 60)
	old := set.Master()
	set.AwaitReplicated()
	old.Kill()
	set.AwaitFailover(old)
	limittest.AwaitThat(t, "the new master decides", func() bool { return serves(t, l) })
	// A lost call may have been executed: it is spent, but nothing is free twice.
	more, err := l.AllowUpTo(t.Context(), 100)
	if got := 61 + more.Granted; err != nil || got > 100 || got < 80 {
		t.Errorf("%d permits were granted in all, want about 100 and no more: %v", got, err)
	}
	if st := limittest.Peek(t, l); st.Used != 100 || st.Shards[0].Quarantine != 0 {
		t.Errorf("%+v", st)
	}
	if d, err := l.Allow(t.Context()); err != nil || d.Allowed || d.RetryAfter < 50*time.Minute {
		t.Errorf("%+v, %v", d, err)
	}
}

// Redis' own FAILOVER makes the master a replica that keeps its connections. Once Sentinel names
// the new master, that one serves.
func TestAMasterDemotedPastSentinelIsLeft(t *testing.T) {
	t.Parallel()
	set := redistest.NewSentinel(t, 1)
	hastenSentinel(t, set)
	f := of(t, set.ClientOption())
	f.Punctual = true
	l := f.Limiter(t, shardlimit.PerMinute(1e6))
	serves := func() bool {
		d, err := l.Allow(t.Context())
		if errors.As(err, new(*shardlimit.ConfigError)) {
			t.Error(err)
		}
		return err == nil && d.Allowed
	}
	limittest.AwaitThat(t, "it serves", serves)
	old := set.Master()
	old.Do(t, "FAILOVER")
	limittest.AwaitThat(t, "the master is demoted", func() bool { return !serves() })
	limittest.AwaitThat(t, "Sentinel names the new one", func() bool { return set.Master() != old })
	limittest.AwaitThat(t, "it serves", serves)
}

// hastenSentinel has the sentinel look at roles five times a second, not every ten seconds.
func hastenSentinel(t *testing.T, set *redistest.Sentinel) {
	t.Helper()
	o := redistest.Slim(rueidis.ClientOption{InitAddress: set.Addrs(), ForceSingleClient: true, DisableCache: true})
	c, err := rueidis.NewClient(o)
	limittest.Must(t, err)
	defer c.Close()
	if err := c.Do(t.Context(), c.B().Arbitrary("SENTINEL", "DEBUG", "info-period", "200").Build()).Error(); err != nil {
		t.Log(err) // before Redis 7 it takes its time
	}
}

// A planned failover leaves two masters for about ten seconds. Where the old one was told first to
// carry out no write for a while, a process that has not heard of the new one gets nothing there,
// and the others go on with the log.
func TestAPausedMasterFailsOverCleanly(t *testing.T) {
	t.Parallel()
	set := redistest.NewSentinel(t, 1)
	old := set.Master()
	f := of(t, set.ClientOption())
	late := f.With(shardlimit.Node{Name: "n", Redis: redistest.Slim(rueidis.ClientOption{
		InitAddress: []string{old.Addr()}, ForceSingleClient: true, DisableCache: true})})
	limit := shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 1}
	quick := limittest.PatientFor(2 * time.Second)
	first := f.Limiter(t, limit, quick)
	limittest.Settled(t, first)
	behind := late.Limiter(t, limit, quick)
	got := int64(0)
	take := func(l *shardlimit.Limiter, n int64) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if d, err := l.AllowUpTo(ctx, n); err == nil && !d.Degraded {
			got += d.Granted
		}
	}
	take(first, 100)
	take(behind, 100)
	old.Do(t, "CLIENT", "PAUSE", "30000", "WRITE")
	set.AwaitReplicated()
	set.Failover()
	take(behind, limit.Permits)
	limittest.AwaitThat(t, "the new master decides", func() bool {
		_, err := first.Peek(t.Context())
		return err == nil
	})
	take(first, limit.Permits)
	take(behind, limit.Permits)
	if got != limit.Permits {
		t.Errorf("%d of %d permits", got, limit.Permits)
	}
}

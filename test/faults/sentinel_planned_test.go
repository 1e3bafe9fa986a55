package faults

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A planned failover leaves two masters for about ten seconds. Where the old one was told first to
// carry out no write for a while, a process that has not heard of the new one gets nothing there,
// and the others go on with the log.
func TestAPausedMasterFailsOverCleanly(t *testing.T) {
	t.Parallel()
	set := redistest.NewSentinel(t, 1)
	old := set.Master()
	f := limittest.Fleet{Nodes: []shardlimit.Node{{Name: "set", Redis: set.ClientOption()}},
		Prefix: redistest.Prefix(t)}
	late := f.With(shardlimit.Node{Name: "set", Redis: redistest.Slim(rueidis.ClientOption{
		InitAddress: []string{old.Addr()}, ForceSingleClient: true, DisableCache: true})})
	limit := shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 1}
	quick := limittest.PatientFor(2 * time.Second)
	first := limittest.Limiter(t, f.Client(t, quick), "l", limit)
	limittest.Settled(t, first)
	behind := limittest.Limiter(t, late.Client(t, quick), "l", limit)
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
	admin := old.Client(t)
	pause := admin.B().Arbitrary("CLIENT", "PAUSE", "30000", "WRITE").Build()
	if err := admin.Do(t.Context(), pause).Error(); err != nil {
		t.Fatal(err)
	}
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

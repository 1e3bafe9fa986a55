package shardlimit_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// reminded is the shortest limit, or nearly, of whose shards processes remember what these granted.
var reminded = shardlimit.Limit{Permits: 10, Per: 64 * time.Second, Shards: 1}

// takes has a process take so many permits.
func takes(t *testing.T, l *shardlimit.Limiter, n int64) {
	t.Helper()
	if d, err := l.AllowN(t.Context(), n); err != nil || !d.Allowed || d.Degraded {
		t.Fatalf("%d permits: %+v, %v", n, d, err)
	}
}

// TestAShardIsRemindedOfWhatLivingProcessesWereGranted: a server comes back empty. One process
// calls it, the other one has been idle, and a third one is dead: what that was granted is
// forgotten, and nothing else.
func TestAShardIsRemindedOfWhatLivingProcessesWereGranted(t *testing.T) {
	t.Parallel()
	fl, posts := proxied(t, 1)
	busy, idle := limiter(t, fl.client(t), "l", reminded), limiter(t, fl.client(t), "l", reminded)
	dying := fl.client(t)
	takes(t, busy, 4)
	takes(t, idle, 3)
	takes(t, limiter(t, dying, "l", reminded), 2)
	dying.Close()
	posts[0].server.Kill()
	posts[0].server.Restart()
	var after int64
	shut := false
	awaitThat(t, "the shard opens", func() bool {
		d, err := busy.AllowUpTo(t.Context(), reminded.Permits)
		if err != nil {
			return false
		}
		after += d.Granted
		shut = shut || d.Granted == 0
		return d.Granted > 0
	})
	if after != 3 || !shut {
		t.Errorf("%d permits were granted after the loss, want the one that was free and the two of the dead process",
			after)
	}
	if s := peek(t, busy).Shards[0]; s.Used != reminded.Permits {
		t.Errorf("%+v", s)
	}
}

package faults

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// sluggish is a Redis client to which every script call takes so long.
type sluggish struct {
	rueidis.Client
	takes time.Duration
}

func (s sluggish) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if name := cmd.Commands()[0]; name == "EVALSHA" || name == "EVAL" {
		limittest.Pause(ctx, s.takes)
	}
	return s.Client.Do(ctx, cmd)
}

// What was collected in vain is given back by nodes that are as slow as a call allows them to be.
func TestWhatWasCollectedInVainIsGivenBackLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 4)
		for i, n := range f.Nodes {
			inner, err := rueidis.NewClient(n.Redis)
			if err != nil {
				t.Fatal(err)
			}
			defer inner.Close()
			f.Nodes[i] = shardlimit.Node{Name: n.Name, Client: sluggish{inner, 700 * time.Millisecond}}
		}
		l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(limittest.Patience)), "l",
			shardlimit.Limit{Permits: 40, Per: time.Hour, Shards: 4})
		limittest.MustGet(t, l, 20)
		if d, err := l.AllowN(t.Context(), 30); err != nil || d.Allowed {
			t.Fatalf("30 of 20: %+v, %v", d, err)
		}
		if used := limittest.Peek(t, l).Used; used != 20 {
			t.Errorf("%d permits are used, want 20", used)
		}
	})
}

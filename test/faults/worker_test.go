package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// outages are the columns of the table of what a worker does, with what it does when nobody
// answers.
var outages = map[shardlimit.OutagePolicy]string{
	shardlimit.FailClosed: "ends: unavailable", shardlimit.WaitOut: "waits",
	shardlimit.FailOpen: "goes on without a limit", shardlimit.FailLocal: "takes 3",
}

// A worker does what the table in docs/howto/batch-worker.md says, whether all, some or none of its
// nodes answer. It is one of four participants that share 12 permits.
func TestWhatAWorkerDoes(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"one node": 1, "two nodes": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, servers := limittest.Independent(t, nodes)
			at := func(s shardlimit.ShardState) int { return f.Index(s.Node) }
			workersMeet(t, f, servers, at)
		})
	}
	t.Run("a cluster", func(t *testing.T) {
		t.Parallel()
		f, c := limittest.Clustered(t, 0, redistest.Args("--cluster-require-full-coverage", "no"))
		workersMeet(t, f, c.Masters(), func(s shardlimit.ShardState) int { return s.Slot * 3 / 16384 })
	})
}

// workersMeet has workers meet all servers, all but the first, and none.
func workersMeet(t *testing.T, f limittest.Fleet, servers []*redistest.Server, at func(shardlimit.ShardState) int) {
	t.Helper()
	type meeting struct {
		what   string
		policy shardlimit.OutagePolicy
		l      *shardlimit.Limiter
		want   string
	}
	var before, less, none []meeting
	for policy, outage := range outages {
		c := f.Client(t, limittest.OnOutage(policy), func(c *shardlimit.Config) { c.Participants = 4 })
		limit := shardlimit.Limit{Permits: 12, Per: time.Hour, Shards: len(servers)}
		spread := func(what string) *shardlimit.Limiter {
			return limittest.Limiter(t, c, fmt.Sprint(what, policy), limit)
		}
		before = append(before, meeting{"all", policy, spread("all"), "takes 12"})
		none = append(none, meeting{"none", policy, spread("none"), outage})
		if len(servers) == 1 {
			continue
		}
		l := spread("less")
		share := 0
		for _, s := range limittest.Peek(t, l).Shards {
			if at(s) != 0 {
				share += int(s.Share)
			}
		}
		less = append(less, meeting{"the others", policy, l, fmt.Sprint("takes ", share)})
		limit.Shards = 1
		for i := 0; ; i++ {
			if l = spread(fmt.Sprint("lone", i)); at(limittest.Peek(t, l).Shards[0]) == 0 {
				break
			}
		}
		less = append(less, meeting{"the others, its only node away", policy, l, outage})
	}
	meet := func(all []meeting) {
		var wg sync.WaitGroup
		for _, m := range all {
			wg.Go(func() {
				if got := work(t, m.l); got != m.want {
					t.Errorf("%s, %v: %s, want %s", m.what, m.policy, got, m.want)
				}
			})
		}
		wg.Wait()
	}
	meet(before)
	servers[0].Kill()
	meet(less)
	for _, s := range servers[1:] {
		s.Kill()
	}
	meet(none)
}

// work tells what becomes of one that waits for a permit again and again.
func work(t *testing.T, l *shardlimit.Limiter) string {
	t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := l.Wait(ctx)
		cancel()
		switch {
		case err == nil:
		case errors.Is(err, shardlimit.ErrWaitTooLong), errors.Is(err, context.DeadlineExceeded) && i > 0:
			return fmt.Sprint("takes ", i) // with a node away more might come in time
		case errors.Is(err, shardlimit.ErrUnavailable):
			return "ends: unavailable"
		case errors.Is(err, context.DeadlineExceeded):
			return "waits"
		default:
			return err.Error()
		}
	}
	return "goes on without a limit"
}

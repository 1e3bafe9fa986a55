package promises

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestNoWindowHoldsMoreThanTheLimit: whatever the limit is, from 1 to 1,000,000 permits, on 1 to 16
// shards, in windows from 10 ms to half a second.
func TestNoWindowHoldsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for name, loads := range map[string][]shardlimit.Limit{
		"four nodes": {
			{Permits: 1, Per: 50 * time.Millisecond, Shards: 1},
			{Permits: 7, Per: 10 * time.Millisecond, Shards: 2},
			{Permits: 1_000_000, Per: 500 * time.Millisecond, Shards: 16},
		},
		"cluster": {
			{Permits: 60, Per: 100 * time.Millisecond, Shards: 16},
			{Permits: 1000, Per: 250 * time.Millisecond, Shards: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := limittest.Places[name](t)
			for _, limit := range loads {
				t.Run(limit.String(), func(t *testing.T) { watch(t, f, limit, max(2*limit.Per, 150*time.Millisecond)) })
			}
		})
	}
}

// watch has four processes use the limit as hard as they can, for d when they have used more than
// all of it once, and checks their history.
func watch(t *testing.T, f limittest.Fleet, limit shardlimit.Limit, d time.Duration) {
	limiters := f.Group(t, 4, fmt.Sprint(limit), limit)
	callers := limittest.NewTraffic(t)
	callers.Rest = time.Millisecond
	callers.Start(3, limiters...)
	// less shows nothing
	limittest.AwaitThat(t, "more than the limit was admitted",
		func() bool { return callers.Admitted.Load() > limit.Permits })
	ops, err := callers.During(d)
	if err != nil {
		t.Errorf("a call failed: %v", err)
	}
	worst := limittest.KeepsTo(t, limit, ops)
	t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
}

func TestNoWindowIsOverAcrossProcesses(t *testing.T) {
	t.Parallel()
	servers := redistest.Servers(t, 2)
	j := limittest.Job{
		Addrs:   []string{servers[0].Addr(), servers[1].Addr()},
		Prefix:  redistest.Prefix(t),
		Name:    "l",
		Limit:   shardlimit.Limit{Permits: 300, Per: 300 * time.Millisecond, Shards: 5},
		Callers: 2,
	}
	workers := make([]*limittest.Worker, 4)
	for i := range workers {
		workers[i] = limittest.Hire(t, j)
	}
	time.Sleep(5 * j.Limit.Per) // how long they work; nothing is right because of it
	for _, w := range workers { // all at once: under the race detector a process takes a second to end
		_ = w.Stdin.Close()
	}
	var files []string
	for _, w := range workers {
		files = append(files, w.Dismiss(t))
	}
	ops, err := history.ReadFiles(files...)
	if err != nil {
		t.Fatal(err)
	}
	worst := limittest.KeepsTo(t, j.Limit, ops)
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("a process admitted nothing: %v", err)
		}
	}
	t.Logf("%d grants, worst window: %d of %d", len(ops), worst.Permits, j.Limit.Permits)
}

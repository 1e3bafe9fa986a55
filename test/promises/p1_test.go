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

// loads are limits and the traffic under which they are watched. Together they
// have 1 to 16 shards, 1 to 1,000,000 permits and windows from 10 ms to 10 s.
var loads = []shardlimit.Limit{
	{Permits: 1, Per: 50 * time.Millisecond, Shards: 1},
	{Permits: 7, Per: 10 * time.Millisecond, Shards: 2},
	{Permits: 60, Per: 100 * time.Millisecond, Shards: 16},
	{Permits: 1000, Per: 250 * time.Millisecond, Shards: 3},
	{Permits: 9_999, Per: 500 * time.Millisecond, Shards: 8},
	{Permits: 1_000_000, Per: 500 * time.Millisecond, Shards: 16},
}

func TestNoWindowHoldsMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(testing.TB) limittest.Fleet{
		"four nodes": func(tb testing.TB) limittest.Fleet { f, _ := limittest.Independent(tb, 4); return f },
		"cluster":    func(tb testing.TB) limittest.Fleet { f, _ := limittest.Clustered(tb, 0); return f },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := place(t)
			for _, limit := range loads {
				t.Run(limit.String(), func(t *testing.T) { watch(t, f, limit, max(2*limit.Per, 150*time.Millisecond)) })
			}
		})
	}
	t.Run("ten seconds", func(t *testing.T) {
		t.Parallel()
		watch(t, limittest.Standalone(t), shardlimit.Limit{Permits: 500, Per: 10 * time.Second, Shards: 4}, time.Second)
	})
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

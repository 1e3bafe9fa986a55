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

func TestABrokenScriptIsCaught(t *testing.T) {
	server := redistest.Standalone(t)
	for _, broken := range []struct {
		name  string
		lines []string // of the calm and the full take, each with what stands instead
		loss  shardlimit.LossPolicy
	}{
		{
			name: "permits come back early",
			lines: []string{"cell == window, now - window,", "cell == window, now - window * 3 / 4,",
				"if newest <= now - window then", "if newest <= now - window * 3 / 4 then"},
		},
		{
			name:  "one permit of each batch is not counted",
			lines: []string{"(total + n)", "(total + n - 1)"},
		},
		{
			name: "shares are twice as large",
			lines: []string{"room, reset = share - ", "room, reset = 2 * share - ",
				"math.min(share, target) - most, 0)", "2 * math.min(share, target) - most, 0)"},
		},
		{
			name: "the state expires early, and the loss is not noticed",
			lines: []string{"fresh, 'PX', life)", "fresh, 'PX', '50')", "own, 'PX', life)", "own, 'PX', '50')",
				"'PEXPIRE', key, life)", "'PEXPIRE', key, '50')",
				"'SET', KEYS[1], state, 'PX', life)", "'SET', KEYS[1], state, 'PX', '50')",
				"'PEXPIRE', KEYS[1], life)", "'PEXPIRE', KEYS[1], '50')"},
			loss: shardlimit.Resume,
		},
	} {
		t.Run(broken.name, func(t *testing.T) {
			// Calls that are long beside the window prove little, and a busy machine makes them
			// long and few: hence a long window of which few calls use up all, and more than one
			// look.
			limit := shardlimit.Limit{Permits: 40, Per: 2 * time.Second, Shards: 4}
			f, m := mutants(t, server.Client(t), broken.lines...)
			callers := limittest.NewTraffic(t)
			callers.Start(4,
				limittest.AsOne(f.Group(t, 4, "l", limit, func(c *shardlimit.Config) { c.AfterLoss = broken.loss }))...)
			var worst history.Window
			caught := func() bool {
				time.Sleep(limit.Per / 16) // how long they work between two looks; nothing is right because of it
				var ok bool
				worst, ok = history.Check(limit.Per, limit.Permits, callers.Record.Ops())
				return !ok
			}
			limittest.AwaitThat(t, "a window holds more than the limit", caught)
			_, _ = callers.Stop() // what is broken may well fail
			if m.changed.Load() == 0 {
				t.Fatal("the broken script did not run")
			}
			t.Logf("%s; worst window: %d of %d", callers, worst.Permits, limit.Permits)
		})
	}
}

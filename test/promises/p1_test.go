package promises

import (
	"os"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

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
		file := w.Dismiss(t)
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("a process admitted nothing: %v", err)
		}
		files = append(files, file)
	}
	ops, err := history.ReadFiles(files...)
	limittest.Must(t, err)
	worst := limittest.KeepsTo(t, j.Limit, ops)
	t.Logf("%d grants, worst window: %d of %d", len(ops), worst.Permits, j.Limit.Permits)
}

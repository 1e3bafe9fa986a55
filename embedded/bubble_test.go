package embedded_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

// Nodes in memory go away, come back and lose what they had, as those on ports do.
func TestNodesInMemoryFail(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(2)
		limittest.Must(t, err)
		defer servers.Close()
		both := func(change func(int) error) {
			t.Helper()
			limittest.Must(t, errors.Join(change(0), change(1)))
		}
		client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), AfterLoss: shardlimit.Quarantine})
		limittest.Must(t, err)
		defer client.Close()
		time.Sleep(time.Minute) // the nodes are older than the limit
		l := limittest.Limiter(t, client, "l", shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 2})
		granted := func() (n int64) {
			t.Helper()
			for range 2 { // the first has a node looked at that nobody has asked since
				d, err := l.AllowUpTo(t.Context(), 10)
				if err != nil && !errors.Is(err, shardlimit.ErrUnavailable) {
					t.Fatal(err)
				}
				n += d.Granted
				time.Sleep(time.Second)
			}
			return n
		}
		if n := granted(); n != 10 {
			t.Fatalf("%d permits", n)
		}
		both(servers.Stop)
		limittest.Limiter(t, client, "l", shardlimit.PerMinute(1))
		time.Sleep(2 * time.Minute)
		limittest.ErrorIs(t, limittest.Err(l.Allow(t.Context())), shardlimit.ErrUnavailable, "without a node")
		both(servers.Resume)
		time.Sleep(10 * time.Second)
		if n := granted(); n != 10 {
			t.Errorf("%d permits from nodes that are back", n)
		}
		both(servers.Lose)
		time.Sleep(10 * time.Second)
		if n := granted(); n != 0 {
			t.Errorf("%d permits from nodes that forgot", n)
		}
		time.Sleep(2 * time.Minute)
		if n := granted(); n != 10 {
			t.Errorf("%d permits after the quarantine", n)
		}
	})
}

// A lost node is noticed by others of a limit with takeover, which need to know one run of a
// server from the next.
func TestALostNodeIsTakenOverInABubble(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(3)
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Close()
		client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), NodeTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		limit := shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3}
		l, err := client.Limiter(t.Context(), "l", limit)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.AllowN(t.Context(), 30); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := servers.Stop(0); err != nil {
			t.Fatal(err)
		}
		for range 200 { // somebody calls, so the loss is noticed
			time.Sleep(200 * time.Millisecond)
			_, _ = l.Allow(t.Context())
		}
		time.Sleep(2 * time.Second)
		if d, err := l.AllowN(t.Context(), 30); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

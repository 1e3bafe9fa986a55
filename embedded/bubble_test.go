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

// inMemory has a test of nodes in memory, and of a client of them, live in a bubble.
func inMemory(t *testing.T, nodes int, c shardlimit.Config,
	test func(*testing.T, *embedded.Servers, *shardlimit.Client)) {
	t.Helper()
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(nodes)
		limittest.Must(t, err)
		defer servers.Close()
		c.Nodes = servers.Nodes()
		client, err := shardlimit.New(c)
		limittest.Must(t, err)
		defer client.Close()
		test(t, servers, client)
	})
}

// Nodes in memory go away, come back and lose what they had, as those on ports do.
func TestNodesInMemoryFail(t *testing.T) {
	quarantine := shardlimit.Config{AfterLoss: shardlimit.Quarantine}
	inMemory(t, 2, quarantine, func(t *testing.T, servers *embedded.Servers, client *shardlimit.Client) {
		both := func(change func(int) error) {
			t.Helper()
			limittest.Must(t, errors.Join(change(0), change(1)))
		}
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
	wary := shardlimit.Config{NodeTimeout: time.Second}
	inMemory(t, 3, wary, func(t *testing.T, servers *embedded.Servers, client *shardlimit.Client) {
		l := limittest.Limiter(t, client, "l", shardlimit.Limit{Permits: 30, Per: time.Second, Shards: 3})
		limittest.MustGet(t, l, 30)
		limittest.Must(t, servers.Stop(0))
		for range 200 { // somebody calls, so the loss is noticed
			time.Sleep(200 * time.Millisecond)
			_, _ = l.Allow(t.Context())
		}
		time.Sleep(2 * time.Second)
		limittest.MustGet(t, l, 30)
	})
}

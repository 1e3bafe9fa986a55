package limittest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Fleet is a set of Redis nodes that clients of a test share.
type Fleet struct {
	Nodes    []shardlimit.Node
	Prefix   string
	Punctual bool          // clients have the default call timeout, as in production
	Bubble   []*BubbleNode // the nodes themselves, of a bubbled fleet
}

// Standalone is a fleet on the one server that tests have in common.
func Standalone(tb testing.TB) Fleet {
	tb.Helper()
	s := redistest.Shared(tb)
	return Fleet{
		Nodes:  []shardlimit.Node{{Name: "solo", Redis: Unhurried(s.ClientOption())}},
		Prefix: redistest.Prefix(tb),
	}
}

// Unhurried is for nodes that no test breaks: however busy the machine is, they
// are not taken to be away.
func Unhurried(o rueidis.ClientOption) rueidis.ClientOption {
	o.Dialer.Timeout, o.ConnWriteTimeout = Patience, Patience
	return redistest.Slim(o)
}

// Independent is a fleet on n servers, n0, n1, ..., of its own.
func Independent(tb testing.TB, n int) (Fleet, []*redistest.Server) {
	tb.Helper()
	servers := redistest.Servers(tb, n)
	f := Fleet{Prefix: redistest.Prefix(tb)}
	for i, s := range servers {
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprintf("n%d", i), Redis: Unhurried(s.ClientOption())})
	}
	return f, servers
}

// Client is a process of the fleet: a participant of its own. In a bubble, where only the net takes
// time, it has the call timeout of production. On the machine's clock a test must pass however busy
// that is, so calls have all the time they want, unless the test is about that.
func (f Fleet) Client(tb testing.TB, change ...func(*shardlimit.Config)) *shardlimit.Client {
	tb.Helper()
	cfg := shardlimit.Config{Nodes: f.Nodes, KeyPrefix: f.Prefix}
	if !f.Punctual {
		cfg.CallTimeout = 30 * time.Second
	}
	for _, c := range change {
		c(&cfg)
	}
	client, err := shardlimit.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// Limiter is the limiter of that name; the test fails if there is none.
func Limiter(tb testing.TB, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Limiter {
	tb.Helper()
	l, err := c.Limiter(context.Background(), name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// Limiter is a process of the fleet with a limit that is called "l".
func (f Fleet) Limiter(tb testing.TB, l shardlimit.Limit, change ...func(*shardlimit.Config)) *shardlimit.Limiter {
	tb.Helper()
	return Limiter(tb, f.Client(tb, change...), "l", l)
}

// Family is a process of the fleet with a family that is called "users".
func (f Fleet) Family(tb testing.TB, l shardlimit.Limit, change ...func(*shardlimit.Config)) *shardlimit.Family {
	tb.Helper()
	return Family(tb, f.Client(tb, change...), "users", l)
}

// Clustered is a fleet on a Redis Cluster of three masters.
func Clustered(tb testing.TB, replicas int, opts ...redistest.Option) (Fleet, *redistest.Cluster) {
	tb.Helper()
	c := redistest.NewCluster(tb, 3, replicas, opts...)
	return Fleet{
		Nodes:  []shardlimit.Node{{Name: "cluster", Redis: Unhurried(c.ClientOption())}},
		Prefix: redistest.Prefix(tb),
	}, c
}

// Index is the number of the node of that name.
func (f Fleet) Index(name string) int {
	return slices.IndexFunc(f.Nodes, func(n shardlimit.Node) bool { return n.Name == name })
}

// With is the fleet with other nodes.
func (f Fleet) With(nodes ...shardlimit.Node) Fleet {
	f.Nodes = nodes
	return f
}

// Restart has processes with these nodes in their list take the place of clients, one by one. began
// is told of each before the one whose place it takes ends.
func (f Fleet) Restart(tb testing.TB, clients []*shardlimit.Client, nodes []shardlimit.Node,
	began func(i int, c *shardlimit.Client), change ...func(*shardlimit.Config)) {
	tb.Helper()
	for i, old := range clients {
		clients[i] = f.With(nodes...).Client(tb, change...)
		began(i, clients[i])
		old.Close()
	}
}

// Drained are the nodes, those with Drain set for which that holds.
func Drained(nodes []shardlimit.Node, drains func(i int) bool) []shardlimit.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Drain = drains(i)
	}
	return nodes
}

// Draining is the node with Drain set.
func Draining(n shardlimit.Node) shardlimit.Node {
	n.Drain = true
	return n
}

// Away is a fleet for a bubble whose node never answers.
func Away() Fleet {
	return Fleet{Prefix: "b:", Nodes: []shardlimit.Node{{Name: "n", Redis: rueidis.ClientOption{
		InitAddress: []string{"n:1"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errors.New("away")
		},
	}}}}
}

// InProcess is nodes that need no redis-server.
func InProcess(tb testing.TB, n int) Fleet {
	tb.Helper()
	servers, err := embedded.Start(n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(servers.Close)
	f := Fleet{Nodes: servers.Nodes(), Prefix: redistest.Prefix(tb)}
	for i := range f.Nodes {
		f.Nodes[i].Redis = Unhurried(f.Nodes[i].Redis)
	}
	return f
}

// Family is the family of that name; the test fails if there is none.
func Family(tb testing.TB, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Family {
	tb.Helper()
	f, err := c.Family(tb.Context(), name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// OnEither runs a test on a real Redis and on an embedded node.
func OnEither(t *testing.T, test func(t *testing.T, f Fleet)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, Standalone(t)) })
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, InProcess(t, 1)) })
}

// Called is the fleet with other names for its nodes, in their order.
func (f Fleet) Called(names ...string) Fleet {
	nodes := make([]shardlimit.Node, len(names))
	for i, name := range names {
		nodes[i] = f.Nodes[i]
		nodes[i].Name = name
	}
	return f.With(nodes...)
}

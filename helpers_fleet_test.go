package shardlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// fleet is a set of Redis nodes that clients of a test share.
type fleet struct {
	nodes    []shardlimit.Node
	prefix   string
	punctual bool // clients have the default call timeout, as in production
}

func standalone(tb testing.TB) fleet {
	tb.Helper()
	s := redistest.Shared(tb)
	return fleet{
		nodes:  []shardlimit.Node{{Name: "solo", Redis: unhurried(s.ClientOption())}},
		prefix: redistest.Prefix(tb),
	}
}

// unhurried is for nodes that no test breaks: however busy the machine is, they
// are not taken to be away.
func unhurried(o rueidis.ClientOption) rueidis.ClientOption {
	o.Dialer.Timeout, o.ConnWriteTimeout = patience, patience
	return redistest.Slim(o)
}

func independent(tb testing.TB, n int) (fleet, []*redistest.Server) {
	tb.Helper()
	servers := redistest.Servers(tb, n)
	f := fleet{prefix: redistest.Prefix(tb)}
	for i, s := range servers {
		f.nodes = append(f.nodes, shardlimit.Node{Name: fmt.Sprintf("n%d", i), Redis: unhurried(s.ClientOption())})
	}
	return f, servers
}

// client is a process of the fleet: a participant of its own. In a bubble, where only the net takes
// time, it has the call timeout of production. On the machine's clock a test must pass however busy
// that is, so calls have all the time they want, unless the test is about that.
func (f fleet) client(tb testing.TB, change ...func(*shardlimit.Config)) *shardlimit.Client {
	tb.Helper()
	cfg := shardlimit.Config{Nodes: f.nodes, KeyPrefix: f.prefix}
	if !f.punctual {
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

func limiter(tb testing.TB, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Limiter {
	tb.Helper()
	l, err := c.Limiter(context.Background(), name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// clustered is a fleet on a Redis Cluster of three masters.
func clustered(tb testing.TB, replicas int, opts ...redistest.Option) (fleet, *redistest.Cluster) {
	tb.Helper()
	c := redistest.NewCluster(tb, 3, replicas, opts...)
	return fleet{
		nodes:  []shardlimit.Node{{Name: "cluster", Redis: unhurried(c.ClientOption())}},
		prefix: redistest.Prefix(tb),
	}, c
}

// awaitAllShards waits until every shard of a limit in use has granted something
// in the running window.
func awaitAllShards(t *testing.T, l *shardlimit.Limiter) {
	t.Helper()
	awaitThat(t, "every shard serves", func() bool {
		st, err := l.Peek(context.Background())
		return err == nil && !slices.ContainsFunc(st.Shards, func(s shardlimit.ShardState) bool {
			return s.Err != nil || s.Used == 0
		})
	})
}

// index is the number of the node of that name.
func (f fleet) index(name string) int {
	return slices.IndexFunc(f.nodes, func(n shardlimit.Node) bool { return n.Name == name })
}

// with is the fleet with other nodes.
func (f fleet) with(nodes ...shardlimit.Node) fleet {
	f.nodes = nodes
	return f
}

// restart has processes with these nodes in their list take the place of clients, one by one. began
// is told of each before the one whose place it takes ends.
func (f fleet) restart(tb testing.TB, clients []*shardlimit.Client, nodes []shardlimit.Node,
	began func(i int, c *shardlimit.Client), change ...func(*shardlimit.Config)) {
	tb.Helper()
	for i, old := range clients {
		clients[i] = f.with(nodes...).client(tb, change...)
		began(i, clients[i])
		old.Close()
	}
}

// drained are the nodes, those with Drain set for which that holds.
func drained(nodes []shardlimit.Node, drains func(i int) bool) []shardlimit.Node {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		nodes[i].Drain = drains(i)
	}
	return nodes
}

// draining is the node with Drain set.
func draining(n shardlimit.Node) shardlimit.Node {
	n.Drain = true
	return n
}

// hosts are the nodes that the shards of a settled state are on.
func hosts(st shardlimit.State) (names []string) {
	for _, s := range st.Shards {
		if !slices.Contains(names, s.Node) {
			names = append(names, s.Node)
		}
	}
	slices.Sort(names)
	return names
}

// away is a fleet for a bubble whose node never answers.
func away() fleet {
	return fleet{prefix: "b:", nodes: []shardlimit.Node{{Name: "n", Redis: rueidis.ClientOption{
		InitAddress: []string{"n:1"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, errors.New("away")
		},
	}}}}
}

// inProcess is nodes that need no redis-server.
func inProcess(tb testing.TB, n int) fleet {
	tb.Helper()
	servers, err := embedded.Start(n)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(servers.Close)
	f := fleet{nodes: servers.Nodes(), prefix: redistest.Prefix(tb)}
	for i := range f.nodes {
		f.nodes[i].Redis = unhurried(f.nodes[i].Redis)
	}
	return f
}

// gone is a limiter that has lost all its nodes.
func gone(tb testing.TB, limit shardlimit.Limit,
	change ...func(*shardlimit.Config)) (*shardlimit.Limiter, []*proxiedNode) {
	tb.Helper()
	fl, posts := proxied(tb, 2)
	l := limiter(tb, fl.client(tb, change...), "l", limit)
	settled(tb, l)
	for _, p := range posts {
		p.server.Kill()
	}
	return l, posts
}

// peek is the state of a limiter whose every shard answers.
func peek(tb testing.TB, l *shardlimit.Limiter) shardlimit.State {
	tb.Helper()
	var st shardlimit.State
	awaitThat(tb, "every shard answers", func() bool { // on a busy machine one may take too long
		var err error
		st, err = l.Peek(tb.Context())
		return err == nil && !slices.ContainsFunc(st.Shards, func(s shardlimit.ShardState) bool { return s.Err != nil })
	})
	return st
}

// shardOn is the shard that a node holds; the test fails unless it is one.
func shardOn(tb testing.TB, st shardlimit.State, node string) (found shardlimit.ShardState) {
	tb.Helper()
	count := 0
	for _, s := range st.Shards {
		if s.Node == node {
			found = s
			count++
		}
	}
	if count != 1 {
		tb.Fatalf("%d shards on %s, want 1: %+v", count, node, st.Shards)
	}
	return found
}

// settled waits until the limiter has a layout of its own: while no majority of the places of its
// record answers in time, a limit is not declared.
func settled(tb testing.TB, l *shardlimit.Limiter) {
	tb.Helper()
	awaitThat(tb, "the limit is declared", func() bool {
		st, err := l.Peek(tb.Context())
		return err == nil && st.Settled
	})
}

// patientFor gives calls more time than a healthy node on a busy machine takes.
func patientFor(d time.Duration) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.CallTimeout = d }
}

func onOutage(p shardlimit.OutagePolicy) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.OnOutage = p }
}

func afterLoss(p shardlimit.LossPolicy) func(*shardlimit.Config) {
	return func(c *shardlimit.Config) { c.AfterLoss = p }
}

// awaitOneLayout waits until all processes work with one layout and its capacity has arrived.
func awaitOneLayout(tb testing.TB, limiters []*shardlimit.Limiter) shardlimit.State {
	tb.Helper()
	var first shardlimit.State
	awaitThat(tb, "one settled layout everywhere", func() bool {
		for i, l := range limiters {
			st, err := l.Peek(context.Background())
			if err != nil || !st.Settled {
				return false
			}
			if i == 0 {
				first = st
			}
			if st.Epoch != first.Epoch || st.Limit != first.Limit || l.Limit() != first.Limit {
				return false
			}
		}
		return true
	})
	return first
}

var algorithms = []shardlimit.Algorithm{
	shardlimit.SlidingLog, shardlimit.SlidingCounter, shardlimit.FixedWindow, shardlimit.TokenBucket,
	shardlimit.LeakyBucket,
}

// places are where a limit can be.
var places = map[string]func(testing.TB) fleet{
	"embedded":   func(tb testing.TB) fleet { return inProcess(tb, 3) },
	"standalone": standalone,
	"four nodes": func(tb testing.TB) fleet { f, _ := independent(tb, 4); return f },
	"cluster":    func(tb testing.TB) fleet { f, _ := clustered(tb, 0); return f },
}

// bursty reports whether an algorithm has a burst.
func bursty(a shardlimit.Algorithm) bool {
	return a == shardlimit.TokenBucket || a == shardlimit.LeakyBucket
}

func keyed(tb testing.TB, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Family {
	tb.Helper()
	f, err := c.Family(tb.Context(), name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// grants asks for single permits until one is denied.
func grants(tb testing.TB, l *shardlimit.Limiter) (n int) {
	tb.Helper()
	for {
		d, err := l.Allow(tb.Context())
		if err != nil || n > 10_000 {
			tb.Fatalf("%s: after %d: %+v, %v", l.Name(), n, d, err)
		}
		if !d.Allowed {
			return n
		}
		n++
	}
}

// onEither runs a test on a real Redis and on an embedded node.
func onEither(t *testing.T, test func(t *testing.T, f fleet)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) { t.Parallel(); test(t, standalone(t)) })
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, inProcess(t, 1)) })
}

// admin is a connection to the first node past every limiter.
func (f fleet) admin(tb testing.TB) rueidis.Client {
	tb.Helper()
	option := f.nodes[0].Redis
	option.ForceSingleClient, option.DisableCache = true, true
	c, err := rueidis.NewClient(option)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// behindProxy puts a proxy before the first node, and counts the script calls.
func (f fleet) behindProxy(tb testing.TB) (fleet, *proxiedNode) {
	tb.Helper()
	p := &proxiedNode{name: f.nodes[0].Name, proxy: redistest.NewProxy(tb, f.nodes[0].Redis.InitAddress[0])}
	f.nodes = slices.Clone(f.nodes)
	f.nodes[0].Redis.InitAddress = []string{p.proxy.Addr()}
	f.nodes[0].Redis.DialCtxFn = p.dial
	return f, p
}

// drain takes all permits, one by one and spread over time, so that they come
// back one by one.
func drain(tb testing.TB, l *shardlimit.Limiter) {
	tb.Helper()
	for range 100 {
		d, err := l.Allow(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		if !d.Allowed {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// sharesSumTo fails the test unless the shares that are wanted, and those in
// force, sum to the limit, each at least one permit.
func sharesSumTo(t testing.TB, l *shardlimit.Limiter, permits int64) shardlimit.State {
	t.Helper()
	st := peek(t, l)
	var target, share int64
	for _, s := range st.Shards {
		target, share = target+s.Target, share+s.Share
		if s.Target < 1 {
			t.Errorf("shard %+v", s)
		}
	}
	if target != permits || share != permits || st.Limit.Permits != permits {
		t.Errorf("%d permits over %d shards: targets sum to %d, shares to %d, the limit is %s", permits, len(st.Shards),
			target, share, st.Limit)
	}
	return st
}

// takeAll has callers ask for n permits until each is denied, and returns how
// many they got.
func takeAll(t *testing.T, limiters []*shardlimit.Limiter, callers int, n int64) int64 {
	var granted atomic.Int64
	var wg sync.WaitGroup
	for _, l := range limiters {
		for range callers {
			wg.Go(func() {
				for {
					d, err := l.AllowN(context.Background(), n)
					if err != nil {
						t.Error(err)
					}
					if err != nil || !d.Allowed {
						return
					}
					granted.Add(n)
				}
			})
		}
	}
	wg.Wait()
	return granted.Load()
}

// used is how many permits a limiter's shards say are used, -1 if they do not answer.
func used(l *shardlimit.Limiter) int64 {
	st, err := l.Peek(context.Background())
	if err != nil {
		return -1
	}
	return st.Used
}

func second[A, B any](_ A, b B) B { return b }

// each is n permits per window for every participant.
func each(n int64, per time.Duration) shardlimit.Limit {
	return shardlimit.Limit{Permits: n, Per: per, Scope: shardlimit.PerParticipant}
}

// ceiling is the most that any interval of one window's length may see.
func ceiling(l shardlimit.Limit) shardlimit.Limit {
	switch l.Algorithm {
	case shardlimit.FixedWindow:
		l.Permits *= 2
	case shardlimit.TokenBucket, shardlimit.LeakyBucket: // leaky: what is granted, not what acts
		l.Permits += max(l.Burst, l.Permits)
	}
	return l
}

package shardlimit_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/script"
)

// proxiedNode is a node of its own for one test, behind a proxy that breaks the net.
type proxiedNode struct {
	name   string
	server *redistest.Server
	proxy  *redistest.Proxy
	takes  atomic.Int64   // calls to shards that clients have written to it
	reads  atomic.Int64   // calls for records
	admin  rueidis.Client // past the proxy; nil until it is used
}

// proxied starts n independent nodes n0, n1, ... that a test may break.
func proxied(tb testing.TB, n int, opts ...redistest.Option) (fleet, []*proxiedNode) {
	tb.Helper()
	f := fleet{prefix: redistest.Prefix(tb)}
	var posts []*proxiedNode
	for i, s := range redistest.Servers(tb, n, opts...) {
		p := &proxiedNode{name: fmt.Sprintf("n%d", i), server: s, proxy: redistest.NewProxy(tb, s.Addr())}
		option := s.ClientOption()
		option.InitAddress = []string{p.proxy.Addr()}
		option.DialCtxFn = p.dial
		f.nodes = append(f.nodes, shardlimit.Node{Name: p.name, Redis: option})
		posts = append(posts, p)
	}
	return f, posts
}

func (p *proxiedNode) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &counted{conn, &p.takes, &p.reads}, nil
}

// counted counts the script calls that are written to a connection.
type counted struct {
	net.Conn
	takes, reads *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	// of records, and of where these are; also in the background
	reads := int64(max(bytes.Count(b, []byte("}:m:")), bytes.Count(b, []byte("}:p\r\n"))))
	c.reads.Add(reads)
	heads := int64(bytes.Count(b, []byte("}l:"))) // of sliding logs: one call is for several shards
	c.takes.Add(max(int64(bytes.Count(b, []byte("EVALSHA")))-reads, heads))
	return c.Conn.Write(b)
}

// do sends one command to the server itself, past the proxy, and returns the reply: a text, or a
// number as one. If the server was restarted, the first connection is lost, and it is sent again.
func (p *proxiedNode) do(tb testing.TB, args ...string) (text string) {
	tb.Helper()
	if p.admin == nil {
		p.admin = p.server.Client(tb)
	}
	awaitThat(tb, fmt.Sprintf("%s answers %q", p.name, args), func() bool {
		reply, err := p.admin.Do(tb.Context(), p.admin.B().Arbitrary(args...).Build()).ToAny()
		if _, says := rueidis.IsRedisErr(err); says && !rueidis.IsRedisNil(err) {
			tb.Fatalf("%s: %q: %v", p.name, args, err)
		}
		if text = ""; reply != nil {
			text = fmt.Sprint(reply)
		}
		return err == nil || rueidis.IsRedisNil(err)
	})
	return text
}

// refuseAll is a Redis client that must not be used: every command fails the
// test, or panics because the client behind it is nil.
type refuseAll struct {
	rueidis.Client
	tb testing.TB
}

func (r refuseAll) B() rueidis.Builder {
	r.tb.Error("a command was built before the arguments were checked")
	return rueidis.Builder{}
}

func (r refuseAll) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (r refuseAll) Close()                   {}

// mutant is a Redis client that puts other lines in place of some of the scripts: a limiter that is
// broken on purpose.
type mutant struct {
	rueidis.Client
	lines   *strings.Replacer
	changed atomic.Int64 // calls that ran a changed text

	mu   sync.Mutex
	shas map[string]string // of the changed text by that of the true one
}

// mutants is a fleet of the one node that the client is of, on which everybody
// runs the changed scripts. Each line has behind it what stands in its place.
func mutants(tb testing.TB, node rueidis.Client, lines ...string) (fleet, *mutant) {
	tb.Helper()
	m := &mutant{Client: node, lines: strings.NewReplacer(lines...), shas: make(map[string]string)}
	return fleet{nodes: []shardlimit.Node{{Name: "solo", Client: m}}, prefix: redistest.Prefix(tb)}, m
}

func (m *mutant) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	if len(words) < 3 {
		return m.Client.Do(ctx, cmd)
	}
	var body string
	switch words[0] {
	case "EVAL":
		if body = m.lines.Replace(words[1]); body == words[1] {
			return m.Client.Do(ctx, cmd)
		}
		m.mu.Lock()
		m.shas[sha(words[1])] = sha(body)
		m.mu.Unlock()
	case "EVALSHA":
		m.mu.Lock()
		body = m.shas[words[1]]
		m.mu.Unlock()
	}
	if body == "" {
		return m.Client.Do(ctx, cmd)
	}
	m.changed.Add(1)
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic(err)
	}
	return m.Client.Do(ctx, m.Client.B().Arbitrary(words[0], body, words[2]).
		Keys(words[3:3+keys]...).Args(words[3+keys:]...).Build())
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// distance is a Redis client whose script calls take a while of the bubble's time. While it is
// stalled they do not come back before their contexts end, and what they asked for is not done.
type distance struct {
	rueidis.Client
	takes   atomic.Int64 // nanoseconds
	stalled atomic.Bool
	calls   atomic.Int64
}

func (d *distance) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if name := cmd.Commands()[0]; name == "EVALSHA" || name == "EVAL" {
		d.calls.Add(1)
		if d.stalled.Load() {
			<-ctx.Done()
		} else {
			sleepOr(ctx, time.Duration(d.takes.Load()))
		}
	}
	return d.Client.Do(ctx, cmd)
}

// distant puts the nodes of a bubbled fleet so far away.
func (f fleet) distant(t *testing.T, takes time.Duration) (fleet, []*distance) {
	t.Helper()
	far := fleet{prefix: f.prefix, punctual: true}
	var all []*distance
	for _, n := range f.nodes {
		inner, err := rueidis.NewClient(n.Redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(inner.Close)
		d := &distance{Client: inner}
		d.takes.Store(int64(takes))
		all = append(all, d)
		t.Cleanup(func() { // calls that hang end, which takes the bubble's time
			d.stalled.Store(false)
			time.Sleep(2 * time.Second)
		})
		far.nodes = append(far.nodes, shardlimit.Node{Name: n.Name, Client: d})
	}
	return far, all
}

// demise is the end of a process: when it has changed a limit's record and told
// so many shards, nothing that it sends arrives any more.
type demise struct {
	armed, dead atomic.Bool
	heard       int64 // shards to be told before
	end         func()
	changed     atomic.Bool
	told        atomic.Int64
	accepted    atomic.Int64 // by places of the record
}

// mortal is a Redis client of a process that dies.
type mortal struct {
	rueidis.Client
	*demise
}

func (m *mortal) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := cmd.Commands()
	accepts, takes, majority := false, false, int64(0)
	if words[0] == "EVAL" || words[0] == "EVALSHA" {
		accepts, majority = acceptsLayout(words)
		takes = !ofARecord(words[3]) // near enough: between the record and the shards it only proposes
	}
	if m.changed.Load() && takes && m.told.Add(1) > m.heard {
		m.die()
	}
	if m.dead.Load() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
		return m.Client.Do(ctx, cmd)
	}
	result := m.Client.Do(ctx, cmd)
	if accepts && m.armed.Load() && result.Error() == nil && m.accepted.Add(1) == majority {
		m.changed.Store(true)
		if m.heard == 0 {
			m.die()
		}
	}
	return result
}

// acceptsLayout reports whether a script call has a place of a limit's record accept a layout, and
// of how many places that makes a majority.
func acceptsLayout(words []string) (accepts bool, majority int64) {
	keys, err := strconv.Atoi(words[2])
	if err != nil || !strings.Contains(words[3], "}:m:") || !strings.Contains(words[3], ":limit:") {
		return false, 0
	}
	majority = 1 // a place that is alone is called without a pointer
	if keys > 3 {
		majority = 2
	}
	return words[3+keys] == strconv.Itoa(script.VoteAccept), majority
}

func (d *demise) die() {
	if !d.dead.Swap(true) {
		d.end()
	}
}

// sleepOr waits, or returns when ctx ends.
func sleepOr(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

package shardlimit_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// outpost is a node of its own for one test, behind a proxy that breaks the net.
type outpost struct {
	name   string
	server *redistest.Server
	proxy  *redistest.Proxy
	takes  atomic.Int64   // calls to shards that clients have written to it
	reads  atomic.Int64   // calls for records
	admin  rueidis.Client // past the proxy; nil until it is used
}

// outposts starts n independent nodes n0, n1, ... that a test may break.
func outposts(tb testing.TB, n int, opts ...redistest.Option) (fleet, []*outpost) {
	tb.Helper()
	f := fleet{prefix: redistest.Prefix(tb)}
	var posts []*outpost
	for i, s := range redistest.Servers(tb, n, opts...) {
		p := &outpost{name: fmt.Sprintf("n%d", i), server: s, proxy: redistest.NewProxy(tb, s.Addr())}
		option := s.ClientOption()
		option.InitAddress = []string{p.proxy.Addr()}
		option.DialCtxFn = p.dial
		f.nodes = append(f.nodes, shardlimit.Node{Name: p.name, Redis: option})
		posts = append(posts, p)
	}
	return f, posts
}

func (p *outpost) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
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
	reads := int64(bytes.Count(b, []byte("}:r:"))) // also in the background
	c.reads.Add(reads)
	c.takes.Add(int64(bytes.Count(b, []byte("EVALSHA"))) - reads)
	return c.Conn.Write(b)
}

// do sends one command to the server itself, past the proxy, and returns the
// reply if it is a text.
func (p *outpost) do(tb testing.TB, args ...string) string {
	tb.Helper()
	if p.admin == nil {
		p.admin = p.server.Client(tb)
	}
	reply, err := p.admin.Do(tb.Context(), p.admin.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil {
		tb.Fatalf("%s: %q: %v", p.name, args, err)
	}
	text, _ := reply.ToString()
	return text
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

// settled waits until the limiter has a layout of its own: while its anchor is
// away or answers too late, a limit is not declared.
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

package limittest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// ProxiedNode is a node of its own for one test, behind a proxy that breaks the net.
type ProxiedNode struct {
	*redistest.Server
	Name  string
	Proxy *redistest.Proxy
	Takes atomic.Int64 // calls to shards that clients have written to it
	Reads atomic.Int64 // calls for records
}

// Proxied starts n independent nodes n0, n1, ... that a test may break.
func Proxied(tb testing.TB, n int, opts ...redistest.Option) (Fleet, []*ProxiedNode) {
	tb.Helper()
	f := Fleet{Prefix: redistest.Prefix(tb)}
	var posts []*ProxiedNode
	for i, s := range redistest.Servers(tb, n, opts...) {
		p := &ProxiedNode{Name: fmt.Sprintf("n%d", i), Server: s, Proxy: redistest.NewProxy(tb, s.Addr())}
		option := s.ClientOption()
		option.InitAddress = []string{p.Proxy.Addr()}
		option.DialCtxFn = p.dial
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: p.Name, Redis: option})
		posts = append(posts, p)
	}
	return f, posts
}

func (p *ProxiedNode) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Counted{conn, &p.Takes, &p.Reads}, nil
}

// Counted counts the script calls that are written to a connection.
type Counted struct {
	net.Conn
	Takes, Reads *atomic.Int64
}

func (c *Counted) Write(b []byte) (int, error) {
	// of records, and of where these are; also in the background
	reads := int64(max(bytes.Count(b, []byte("}:m:")), bytes.Count(b, []byte("}:p\r\n"))))
	c.Reads.Add(reads)
	heads := int64(bytes.Count(b, []byte("}l:"))) // of sliding logs: one call is for several shards
	c.Takes.Add(max(int64(bytes.Count(b, []byte("EVALSHA")))-reads, heads))
	return c.Conn.Write(b)
}

// RefuseAll is a Redis client that must not be used: every command fails the
// test, or panics because the client behind it is nil.
type RefuseAll struct {
	rueidis.Client
	TB testing.TB
}

func (r RefuseAll) B() rueidis.Builder {
	r.TB.Error("a command was built before the arguments were checked")
	return rueidis.Builder{}
}

func (r RefuseAll) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (r RefuseAll) Close()                   {}

// Distance is a Redis client whose script calls take a while of the bubble's time. While it is
// stalled they do not come back before their contexts end, and what they asked for is not done.
type Distance struct {
	rueidis.Client
	Takes   atomic.Int64 // nanoseconds
	Back    atomic.Int64 // how much longer the way back takes of calls that are made now, likewise
	Stalled atomic.Bool
	Calls   atomic.Int64
}

func (d *Distance) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	back := time.Duration(d.Back.Load())
	d.travel(ctx, cmd)
	r := d.Client.Do(ctx, cmd)
	Pause(ctx, back)
	return r
}

func (d *Distance) DoMulti(ctx context.Context, all ...rueidis.Completed) []rueidis.RedisResult {
	d.travel(ctx, all[0])
	return d.Client.DoMulti(ctx, all...)
}

// travel takes as long as the way of script calls that go together, of which one is given.
func (d *Distance) travel(ctx context.Context, cmd rueidis.Completed) {
	if name := cmd.Commands()[0]; name != "EVALSHA" && name != "EVAL" {
		return
	}
	d.Calls.Add(1)
	if d.Stalled.Load() {
		<-ctx.Done()
	} else {
		Pause(ctx, time.Duration(d.Takes.Load()))
	}
}

// Distant puts the nodes of a bubbled fleet so far away.
func (f Fleet) Distant(t *testing.T, takes time.Duration) (Fleet, []*Distance) {
	t.Helper()
	far := Fleet{Prefix: f.Prefix, Punctual: true, Bubble: f.Bubble}
	var all []*Distance
	for _, n := range f.Nodes {
		inner, err := rueidis.NewClient(n.Redis)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(inner.Close)
		d := &Distance{Client: inner}
		d.Takes.Store(int64(takes))
		all = append(all, d)
		t.Cleanup(func() { // calls that hang end, which takes the bubble's time
			d.Stalled.Store(false)
			time.Sleep(2 * time.Second)
		})
		far.Nodes = append(far.Nodes, shardlimit.Node{Name: n.Name, Client: d})
	}
	return far, all
}

// Far has every script call to a node of the fleet take so long before it is written.
func (f Fleet) Far(node int, delay time.Duration) Fleet {
	option := &f.Nodes[node].Redis
	near := option.DialCtxFn
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		conn, err := near(ctx, addr, d, c)
		open, end := context.WithCancel(context.Background())
		return &distant{conn, delay, open, end}, err
	}
	return f
}

// distant is a connection on which a script call takes a while, unless it is closed: rueidis waits
// for the end of a write without rest, and then the time of a bubble stands still.
type distant struct {
	net.Conn
	delay time.Duration
	open  context.Context
	end   context.CancelFunc
}

func (d *distant) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("EVALSHA")) {
		written, done := context.WithTimeout(d.open, d.delay)
		<-written.Done()
		done()
	}
	return d.Conn.Write(b)
}

func (d *distant) Close() error {
	d.end()
	return d.Conn.Close()
}

// CutBy is the fleet for a process that reaches nobody once cut is set.
func (f Fleet) CutBy(cut *atomic.Bool) Fleet {
	far := f
	far.Nodes = append([]shardlimit.Node{}, f.Nodes...)
	for i := range far.Nodes {
		dial := far.Nodes[i].Redis.DialCtxFn
		far.Nodes[i].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
			cfg *tls.Config) (net.Conn, error) {
			if cut.Load() {
				return nil, errCut
			}
			conn, err := dial(ctx, addr, d, cfg)
			return &cutConn{conn, cut}, err
		}
	}
	return far
}

var errCut = errors.New("cut off")

// cutConn is a connection that fails once cut is set.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.cut.Load() {
		_ = c.Conn.Close()
		return 0, errCut
	}
	return c.Conn.Write(b)
}

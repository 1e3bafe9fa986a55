package shardlimit_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// bubbled is a fleet for a test under testing/synctest: nodes on pipes whose clock is the bubble's.
// Processes, scripts and the moves of capacity are the real ones; only time is not, so that minutes
// of a limit pass in seconds, and a busy machine changes nothing.
func bubbled(t *testing.T, nodes int) fleet {
	t.Helper()
	f, _ := bubbledNodes(t, nodes)
	f.punctual = true
	return f
}

// bubbleNode is a node of a bubbled fleet that a test can break.
type bubbleNode struct {
	redis  *redissim.Server
	down   atomic.Bool  // it refuses every script
	stuck  atomic.Int64 // how long scripts that come now are on their way, nanoseconds
	each   atomic.Int64 // how long it works for each key of a script, nanoseconds
	paused atomic.Int64 // until when it carries out no script, UnixNano
}

func (n *bubbleNode) hook(c *server.Peer, cmd string, args ...string) bool {
	if cmd == "EVALSHA" || cmd == "EVAL" {
		keys, _ := strconv.ParseInt(args[1], 10, 64)
		time.Sleep(time.Duration(n.stuck.Load() + keys*n.each.Load()))
		time.Sleep(time.Until(time.Unix(0, n.paused.Load())))
		if n.down.Load() {
			c.WriteError("LOADING it is down")
			return true
		}
	}
	return n.redis.Answer(c, cmd, args...)
}

// bubbledNodes is bubbled, with a hand on the nodes.
func bubbledNodes(t *testing.T, nodes int) (fleet, []*bubbleNode) {
	t.Helper()
	race.OneProcessor(t)
	f, broken := fleet{prefix: "b:"}, []*bubbleNode{}
	for i := range nodes {
		node := &bubbleNode{redis: redissim.NewServer(time.Now)}
		node.redis.Restart() // it has just been started
		dial := fronted(t, node.hook)
		broken = append(broken, node)
		f.nodes = append(f.nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Redis: redistest.Slim(rueidis.ClientOption{
			InitAddress: []string{fmt.Sprint("n", i, ":1")}, ForceSingleClient: true, DisableCache: true,
			Dialer: net.Dialer{KeepAlive: time.Hour}, // a ping a second would be most of what a rest of days costs
			DialCtxFn: func(context.Context, string, *net.Dialer,
				*tls.Config) (net.Conn, error) {
				return dial()
			},
		})})
	}
	return f, broken
}

// fronted returns how to connect to a server whose commands the hook carries out.
func fronted(tb testing.TB, hook server.Hook) (dial func() (net.Conn, error)) {
	tb.Helper()
	front := miniredis.NewMiniRedis()
	conn, err := front.Dial() // starts it, without a port
	if err != nil {
		tb.Fatal(err)
	}
	_ = conn.Close()
	front.Server().SetPreHook(hook)
	return front.Dial
}

// bubbledServers is bubbled with the servers of the nodes.
func bubbledServers(t *testing.T, nodes int) (fleet, []*redissim.Server) {
	t.Helper()
	f, made := bubbledNodes(t, nodes)
	var servers []*redissim.Server
	for _, n := range made {
		servers = append(servers, n.redis)
	}
	return f, servers
}

// demand asks for permits through each limiter in turn, one every pause of the bubble's time, and
// keeps the history.
type demand struct {
	t     *testing.T
	begun time.Time
	end   chan struct{}
	wg    sync.WaitGroup
	ops   []history.Op
	inUse
}

func newDemand(t *testing.T, pause time.Duration, limiters ...*shardlimit.Limiter) *demand {
	d := &demand{t: t, begun: time.Now(), end: make(chan struct{})}
	var handles []*handle
	for _, l := range limiters {
		handles = append(handles, d.use(l))
	}
	d.wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-d.end:
				return
			case <-time.After(pause):
			}
			start := d.now()
			h := handles[i%len(handles)]
			l := h.Load()
			got, err := l.Allow(context.Background())
			if err != nil && h.Load() != l {
				continue // its process has ended
			}
			if err != nil {
				t.Errorf("a call failed: %v", err)
				return
			}
			d.ops = append(d.ops, history.Op{Start: start, End: d.now(), Permits: got.Granted})
		}
	})
	return d
}

func (d *demand) now() int64 { return int64(time.Since(d.begun)) }

// stop ends the demand and returns what it got.
func (d *demand) stop() []history.Op {
	close(d.end)
	d.wg.Wait()
	return d.ops
}

// frozen is nodes whose clocks stand still once they are set.
func frozen(tb testing.TB, n int) (f fleet, set func(time.Time)) {
	tb.Helper()
	var now atomic.Pointer[time.Time]
	clock := func() time.Time {
		if stands := now.Load(); stands != nil {
			return *stands
		}
		return time.Now()
	}
	f.prefix = redistest.Prefix(tb)
	for i := range n {
		node := redissim.NewServer(clock)
		dial := fronted(tb, func(c *server.Peer, cmd string, args ...string) bool {
			return node.Answer(c, cmd, args...)
		})
		f.nodes = append(f.nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Redis: unhurried(rueidis.ClientOption{
			InitAddress: []string{fmt.Sprint("n", i, ":1")}, ForceSingleClient: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return dial() },
		})})
	}
	return f, func(at time.Time) { now.Store(&at) }
}

// inBubble runs a test on nodes in a bubble of time.
func inBubble(t *testing.T, nodes int, test func(t *testing.T, f fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, bubbled(t, nodes)) })
}

// pause waits as long as it was told to, and reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// eventually polls until the condition holds, for as long as a test has patience, and returns what
// it saw last.
func eventually[T any](tb testing.TB, look func() (T, bool)) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		v, ok := look()
		if ok || !pause(ctx, 5*time.Millisecond) {
			return v
		}
	}
}

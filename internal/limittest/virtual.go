package limittest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
	"github.com/shardlimit/shardlimit/internal/race"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// BubbleNode is a node of a bubbled fleet that a test can break.
type BubbleNode struct {
	Redis  *redissim.Server
	Down   atomic.Bool  // it refuses every script
	Stuck  atomic.Int64 // how long scripts that come now are on their way, nanoseconds
	Each   atomic.Int64 // how long it works for each key of a script, nanoseconds
	Calls  atomic.Int64 // scripts that came
	Paused atomic.Int64 // until when it carries out no script, UnixNano
}

func (n *BubbleNode) hook(c *server.Peer, cmd string, args ...string) bool {
	if cmd == "EVALSHA" || cmd == "EVAL" {
		n.Calls.Add(1)
		keys, _ := strconv.ParseInt(args[1], 10, 64)
		time.Sleep(time.Duration(n.Stuck.Load() + keys*n.Each.Load()))
		time.Sleep(time.Until(time.Unix(0, n.Paused.Load())))
		if n.Down.Load() {
			c.WriteError("LOADING it is down")
			return true
		}
	}
	return n.Redis.Answer(c, cmd, args...)
}

// Bubbled is a fleet for a test under testing/synctest: nodes on pipes whose clock is the bubble's.
// Processes, scripts and the moves of capacity are the real ones; only time is not, so that minutes
// of a limit pass in seconds, and a busy machine changes nothing.
func Bubbled(t *testing.T, nodes int) Fleet {
	t.Helper()
	race.OneProcessor(t)
	f := Fleet{Prefix: "b:", Punctual: true}
	for i := range nodes {
		node := &BubbleNode{Redis: redissim.NewServer(time.Now)}
		node.Redis.Restart() // it has just been started
		dial := fronted(t, node.hook)
		f.Bubble = append(f.Bubble, node)
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Redis: redistest.Slim(rueidis.ClientOption{
			InitAddress: []string{fmt.Sprint("n", i, ":1")}, ForceSingleClient: true, DisableCache: true,
			Dialer: net.Dialer{KeepAlive: time.Hour}, // a ping a second would be most of what a rest of days costs
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				return dial()
			},
		})})
	}
	return f
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

// Frozen is nodes whose clocks stand still once they are set.
func Frozen(tb testing.TB, n int) (f Fleet, set func(time.Time)) {
	tb.Helper()
	var now atomic.Pointer[time.Time]
	clock := func() time.Time {
		if stands := now.Load(); stands != nil {
			return *stands
		}
		return time.Now()
	}
	f.Prefix = redistest.Prefix(tb)
	for i := range n {
		node := redissim.NewServer(clock)
		dial := fronted(tb, func(c *server.Peer, cmd string, args ...string) bool {
			return node.Answer(c, cmd, args...)
		})
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: fmt.Sprint("n", i), Redis: Unhurried(rueidis.ClientOption{
			InitAddress: []string{fmt.Sprint("n", i, ":1")}, ForceSingleClient: true,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return dial() },
		})})
	}
	return f, func(at time.Time) { now.Store(&at) }
}

// InBubble runs a test on nodes in a bubble of time.
func InBubble(t *testing.T, nodes int, test func(t *testing.T, f Fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, Bubbled(t, nodes)) })
}

// RunInBubble runs a part of a test on nodes in a bubble of time.
func RunInBubble(t *testing.T, name string, nodes int, test func(t *testing.T, f Fleet)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { InBubble(t, nodes, test) })
}

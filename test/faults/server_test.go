package faults

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// grantedTo is what limiters are granted one after the other, each in twelve calls.
func grantedTo(t *testing.T, limiters ...*shardlimit.Limiter) (got int64) {
	t.Helper()
	for _, l := range limiters {
		for range 12 {
			if d, err := l.AllowUpTo(t.Context(), 300); err == nil {
				got += d.Granted
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return got
}

// use has limiters called now and then for a while, and then leave what they used behind.
func use(t *testing.T, limiters ...*shardlimit.Limiter) {
	t.Helper()
	for range 12 {
		for _, l := range limiters {
			_, _ = l.Allow(t.Context())
		}
		time.Sleep(10 * time.Second)
	}
	time.Sleep(31 * time.Second)
}

// ofThree is a limit with a shard on each of three nodes.
var ofThree = shardlimit.Limit{Permits: 300, Per: 30 * time.Second, Shards: 3}

// A server was started with a snapshot of another one, and has its name by that. No two servers
// serve one shard.
func TestAServerWithASnapshotOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		old := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", ofThree)
		use(t, old)
		everything := func(string) bool { return true }
		image := nodes[1].Redis.Save(everything)
		nodes[0].Redis.Restart()
		nodes[0].Redis.Load(image, everything)
		for range 4 { // whichever node a process reaches first
			fresh := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", ofThree)
			use(t, old, fresh)
			if got := grantedTo(t, old, fresh, old); got > ofThree.Permits {
				t.Errorf("%d of %d permits", got, ofThree.Permits)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// The address of one node leads a process to the server of another for a while. Neither then nor
// later do two servers serve one shard.
func TestAnAddressThatLeadsToAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, _ := limittest.BubbledNodes(t, 3)
		fl.Punctual = true
		right := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", ofThree)
		var astray atomic.Bool
		var mu sync.Mutex
		var open []net.Conn
		other := fl.With(slices.Clone(fl.Nodes)...)
		zero, one := fl.Nodes[0].Redis.DialCtxFn, fl.Nodes[1].Redis.DialCtxFn
		other.Nodes[0].Redis.DialCtxFn = func(ctx context.Context, a string, d *net.Dialer, c *tls.Config) (net.Conn,
			error) {
			dial := zero
			if astray.Load() {
				dial = one
			}
			conn, err := dial(ctx, a, d, c)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				open = append(open, conn)
			}
			return conn, err
		}
		lead := func(wrong bool) {
			astray.Store(wrong)
			mu.Lock()
			defer mu.Unlock()
			for _, c := range open {
				_ = c.Close()
			}
			open = nil
		}
		led := limittest.Limiter(t, other.Client(t, limittest.TakesOver), "l", ofThree)
		use(t, right, led)
		for _, wrong := range []bool{true, false} {
			lead(wrong)
			use(t, right, led)
			fresh := limittest.Limiter(t, fl.Client(t, limittest.TakesOver), "l", ofThree)
			use(t, right, fresh)
			if got := grantedTo(t, right, led, fresh); got > ofThree.Permits {
				t.Errorf("led to the wrong server %v: %d of %d permits", wrong, got, ofThree.Permits)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

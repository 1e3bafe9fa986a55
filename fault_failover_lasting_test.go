package shardlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// A takeover counts a reservation of a longer window, although the limit has settled with a shorter
// one since.
func TestAReservationOfALongerWindowOutlivesItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 3)
		fl.punctual = true
		long := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
		l := limiter(t, fl.client(t, wary), "l", long)
		settled(t, l)
		drain(t, l)
		r, err := l.Reserve(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		short := long
		short.Per = time.Second
		if err := l.SetLimit(t.Context(), short); err != nil {
			t.Fatal(err)
		}
		settled(t, l)
		for i, n := range fl.nodes {
			nodes[i].down.Store(n.Name == peek(t, l).Shards[0].Node)
		}
		for r.Delay() > 300*time.Millisecond {
			_, _ = l.Allow(t.Context())
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(r.Delay()) // from now on its permits are used
		for end := time.Now().Add(900 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if d, err := l.Allow(t.Context()); err == nil && d.Granted > 0 {
				t.Fatal("a permit beside a reservation for all of them")
			}
		}
	})
}

// What is wholly on a lost node is served elsewhere as soon as nobody relies on the node, and what
// was granted or reserved there has left the window: two windows.
func TestATakeoverWaitsForTwoWindows(t *testing.T) {
	limit := shardlimit.Limit{Permits: 10, Per: time.Minute, Shards: 1}
	for name, family := range map[string]bool{"a limit": false, "a key": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fl, nodes := bubbledNodes(t, 3)
				fl.punctual = true
				var l *shardlimit.Limiter
				if client := fl.client(t, takesOver); family {
					l = keyed(t, client, "f", limit).Limiter("user")
				} else {
					l = limiter(t, client, "l", limit)
				}
				settled(t, l)
				drain(t, l)
				for i, n := range fl.nodes {
					nodes[i].down.Store(n.Name == peek(t, l).Shards[0].Node)
				}
				lost := time.Now()
				least, most := 2*limit.Per, 2*limit.Per+17*time.Second
				for time.Since(lost) <= most {
					if d, err := l.Allow(t.Context()); err == nil && d.Granted > 0 {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if served := time.Since(lost); served < least || served > most {
					t.Errorf("it is served after %v, want %v to %v", served, least, most)
				}
			})
		})
	}
}

// Batches that wait in line are booked a window ahead. A takeover counts them until they have
// left the window, although their process cannot be reached either.
func TestWhatWasBookedAheadOutlivesItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 3)
		fl.punctual = true
		var cut atomic.Bool
		limit := shardlimit.Limit{Permits: 30, Per: time.Minute, Shards: 3}
		var far []*shardlimit.Limiter
		for range 2 {
			far = append(far, limiter(t, fl.cutBy(&cut).client(t, wary, func(c *shardlimit.Config) {
				c.OnOutage = shardlimit.WaitOut
			}), "l", limit))
		}
		near := limiter(t, fl.client(t, wary), "l", limit)
		settled(t, near)
		begun := time.Now()
		var record history.Recorder
		tally := record.Tally()
		granted := func(from time.Time, n int64) { tally.Add(int64(from.Sub(begun)), int64(time.Since(begun)), n) }
		drain(t, near)
		granted(begun, limit.Permits)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		var waiting sync.WaitGroup
		for _, l := range far {
			waiting.Go(func() {
				if err := l.WaitN(ctx, limit.Permits); err == nil {
					granted(time.Now(), limit.Permits)
				}
			})
			time.Sleep(200 * time.Millisecond) // it has booked
		}
		cut.Store(true)
		nodes[0].down.Store(true)
		for time.Since(begun) < 5*time.Minute {
			from := time.Now()
			if d, err := near.Allow(t.Context()); err == nil {
				granted(from, d.Granted)
			}
			time.Sleep(500 * time.Millisecond)
		}
		cancel()
		waiting.Wait()
		ops := record.Ops()
		keepsTo(t, limit, ops)
		if total := history.Total(ops); total < 4*limit.Permits {
			t.Errorf("%d permits in all: what was booked was not used, or nothing was taken over", total)
		}
	})
}

// A process that rested while a limit was lowered reserves no farther ahead than the new limit
// allows: a takeover does not wait for more.
func TestWhoRestedReservesByTheLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, _ := bubbledNodes(t, 3)
		fl.punctual = true
		before := shardlimit.Limit{Permits: 1000, Per: time.Second, Shards: 1}
		rests, other := limiter(t, fl.client(t, wary), "l", before), limiter(t, fl.client(t, wary), "l", before)
		settled(t, other)
		after := before
		after.Permits = 10
		if err := other.SetLimit(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		for range 25 {
			time.Sleep(time.Second)
			if _, err := other.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var farthest time.Duration
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				r, err := rests.Reserve(t.Context(), 10)
				if err != nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				farthest = max(farthest, r.Delay())
			})
		}
		calls.Wait()
		if farthest == 0 || farthest > 3*after.Per {
			t.Errorf("reserved %v ahead", farthest)
		}
	})
}

// cutBy is the fleet for a process that reaches nobody once cut is set.
func (f fleet) cutBy(cut *atomic.Bool) fleet {
	far := f
	far.nodes = append([]shardlimit.Node{}, f.nodes...)
	for i := range far.nodes {
		dial := far.nodes[i].Redis.DialCtxFn
		far.nodes[i].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
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

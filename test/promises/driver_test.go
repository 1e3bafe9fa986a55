package promises

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// wire is the way to a node of a bubble: it counts script calls, and can be cut.
type wire struct {
	takes atomic.Int64
	mu    sync.Mutex
	dead  bool
	open  []net.Conn
}

// wired puts a wire before every node of a bubble.
func wired(f limittest.Fleet) (limittest.Fleet, []*wire) {
	wires := make([]*wire, len(f.Nodes))
	for i := range f.Nodes {
		w, inner := &wire{}, f.Nodes[i].Redis.DialCtxFn
		wires[i] = w
		f.Nodes[i].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
			cfg *tls.Config) (net.Conn, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.dead {
				return nil, errors.New("the node is away")
			}
			conn, err := inner(ctx, addr, d, cfg)
			if err == nil {
				w.open = append(w.open, conn)
				conn = &limittest.Counted{Conn: conn, Takes: &w.takes, Reads: new(atomic.Int64)}
			}
			return conn, err
		}
	}
	return f, wires
}

// cut makes the node one that is away, or there again.
func (w *wire) cut(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = dead
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}

// A process that has lowered a limit and has nothing else to do asks each shard that has permits to
// give up a few times a minute, however long the window is. The change is complete a minute after
// it can be.
func TestADriverAsksSeldom(t *testing.T) {
	for name, algorithm := range map[string]shardlimit.Algorithm{
		"sliding log": shardlimit.SlidingLog, "sliding counter": shardlimit.SlidingCounter,
	} {
		if !extent.Plays(int(algorithm)) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
				f, wires := wired(f)
				ctx := t.Context()
				shards := int64(extent.Fewer(16))
				if extent.Full {
					shards = 256
				}
				all := 100 * shards
				limit := shardlimit.Limit{Permits: all, Per: 24 * time.Hour, Shards: int(shards), Algorithm: algorithm}
				l := limittest.Limiter(t, f.Client(t), "l", limit)
				var last time.Time
				for range 8 { // an eighth of the shards each time
					if d, err := l.AllowUpTo(ctx, all/8); err != nil || d.Granted != all/8 {
						t.Fatalf("%+v, %v", d, err)
					}
					last = time.Now()
					time.Sleep(time.Hour)
				}
				_, _ = l.AllowUpTo(ctx, all)
				limit.Permits /= 100 // one permit a shard: all must have left but for one of each
				if err := l.SetLimit(ctx, limit); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				for minute := range 30 {
					before := wires[0].takes.Load()
					time.Sleep(time.Minute)
					if n := wires[0].takes.Load() - before; n > 8*shards {
						t.Fatalf("minute %d: %d script calls", minute, n)
					}
				}
				ends := last.Add(24*time.Hour + time.Minute)
				time.Sleep(time.Until(last.Add(24*time.Hour - 2*time.Second)))
				if st, err := l.Peek(ctx); err != nil || st.Settled {
					t.Errorf("two seconds before the last permits leave: settled %t, %v", st.Settled, err)
				}
				time.Sleep(time.Until(ends))
				if st, err := l.Peek(ctx); err != nil || !st.Settled {
					t.Errorf("a minute after the last permits have left: settled %t, %v", st.Settled, err)
				}
			})
		})
	}
}

// What is given back to a shard that gives its capacity up is noticed at once, not when it would
// have left its window.
func TestADriverNoticesARefund(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		ctx := t.Context()
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.Limit{Permits: 100, Per: 24 * time.Hour, Shards: 2})
		d, err := l.AllowN(ctx, 100)
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		if err := l.SetLimit(ctx, shardlimit.Limit{Permits: 50, Per: 24 * time.Hour, Shards: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("before the refund: settled %t, %v", st.Settled, err)
		}
		if err := l.Settle(ctx, d, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("a second after the refund: settled %t, %v", st.Settled, err)
		}
	})
}

// While a node is away that a change waits for, the process that made the change asks the others a
// few times a second at the most, and completes the change some seconds after the node is back.
func TestADriverBacksOffWhileANodeIsAway(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		f, wires := wired(f)
		ctx := t.Context()
		c := f.Client(t, limittest.PatientFor(100*time.Millisecond))
		limit := shardlimit.Limit{Permits: 1200, Per: 100 * time.Millisecond, Shards: 12}
		var all []*shardlimit.Limiter
		for i := range 9 {
			all = append(all, limittest.Limiter(t, c, fmt.Sprint("l", i), limit))
			if d, err := all[i].AllowN(ctx, 1200); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		time.Sleep(5 * time.Second) // they are not new any more
		wires[2].cut(true)
		var l *shardlimit.Limiter
		for _, l = range all {
			limit.Permits, limit.Shards = 1600, 16
			var away *shardlimit.ShardError
			if err := l.SetLimit(ctx, limit); errors.As(err, &away) && !errors.Is(err, shardlimit.ErrUnavailable) {
				break // the change is stored, and the limit has shards on the node that is away
			}
			l = nil
		}
		if l == nil {
			t.Fatal("no limit could be changed")
		}
		time.Sleep(10 * time.Second)
		before := wires[0].takes.Load() + wires[1].takes.Load()
		time.Sleep(time.Minute)
		n := wires[0].takes.Load() + wires[1].takes.Load() - before
		t.Logf("%d script calls in a minute", n)
		if n > 240 {
			t.Errorf("%d script calls in a minute while a node is away", n)
		}
		if st, err := l.Peek(ctx); err != nil || st.Settled {
			t.Errorf("while the node is away: settled %t, %v", st.Settled, err)
		}
		wires[2].cut(false)
		time.Sleep(12 * time.Second)
		if st, err := l.Peek(ctx); err != nil || !st.Settled {
			t.Errorf("after the node is back: settled %t, %v", st.Settled, err)
		}
	})
}

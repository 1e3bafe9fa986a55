package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

var stressFor = flag.Duration("stress", 3*time.Second, "how long TestNothingCrashesAProcess goes on")

// hung is how much longer than its context no call takes, however busy the machine is.
const hung = 10 * time.Second

// stress is processes that do everything at once to the same limits, on nodes that break all the
// time.
type stress struct {
	*testing.T
	fleet limittest.Fleet
	until time.Time
	wg    sync.WaitGroup
	calls atomic.Int64
	kinds sync.Map // of errors, by text
}

// Whatever processes do to a limit at the same time, and however its nodes behave, no process
// crashes, no call takes longer than its context, no error is of an unknown kind, and nothing is
// left when the processes end. Run it under the race detector, too. -stress is for how long.
//
// Not parallel: it looks at all goroutines of the process.
func TestNothingCrashesAProcess(t *testing.T) {
	before := len(limittest.OwnGoroutines())
	t.Run("all at once", func(t *testing.T) {
		f, posts := limittest.Proxied(t, 3)
		s := &stress{T: t, fleet: f, until: time.Now().Add(*stressFor)}
		for range 3 {
			s.wg.Go(s.process)
		}
		for range 4 {
			s.wg.Go(s.guests)
		}
		for _, p := range posts {
			s.wg.Go(func() { s.breaks(p) })
		}
		s.wg.Wait()
		t.Logf("%d calls", s.calls.Load())
	})
	limittest.AwaitThat(t, "no goroutine is left", func() bool { return len(limittest.OwnGoroutines()) <= before })
}

func (s *stress) over() bool { return !time.Now().Before(s.until) }

// breaks has a node stall, lose its connections and lose replies, and come back.
func (s *stress) breaks(p *limittest.ProxiedNode) {
	for !s.over() {
		time.Sleep(rand.N(900 * time.Millisecond))
		switch rand.IntN(4) {
		case 0:
			p.Proxy.Stall(true)
			time.Sleep(rand.N(200 * time.Millisecond))
			p.Proxy.Stall(false)
		case 1:
			p.Proxy.DropReplies(true)
			time.Sleep(rand.N(100 * time.Millisecond))
			p.Proxy.DropReplies(false)
		case 2:
			p.Proxy.Cut()
		}
	}
}

// open is a process that waits as short a time as a real one.
func (s *stress) open() *shardlimit.Client {
	return s.fleet.Client(s, limittest.PatientFor(100*time.Millisecond), limittest.OnOutage(policies[rand.IntN(3)]))
}

// process is a process that lives as long as the test, and is closed while calls are under way.
func (s *stress) process() {
	c := s.open()
	var callers sync.WaitGroup
	for range 12 {
		callers.Go(func() {
			for !s.over() {
				s.one(c)
			}
		})
	}
	for range 2 {
		callers.Go(func() {
			for !s.over() {
				s.change(c)
				time.Sleep(rand.N(20 * time.Millisecond))
			}
		})
	}
	time.Sleep(time.Until(s.until) - rand.N(300*time.Millisecond))
	s.close(c)
	callers.Wait()
}

// guests are processes that come, call, and go.
func (s *stress) guests() {
	for !s.over() {
		c := s.open()
		s.one(c)
		s.close(c)
	}
}

func (s *stress) close(c *shardlimit.Client) {
	s.within("Close", time.Second, func(context.Context) error { c.Close(); return nil })
}

// limit is any limit at all.
func (s *stress) limit() shardlimit.Limit {
	limit := shardlimit.Limit{
		Permits:   20 + rand.Int64N(200),
		Per:       time.Duration(50+rand.IntN(3000)) * time.Millisecond,
		Algorithm: shardlimit.Algorithm(rand.IntN(5)),
		Shards:    rand.IntN(8),
	}
	if rand.IntN(8) == 0 {
		limit.Scope = shardlimit.PerParticipant
	} else if limit.Algorithm == shardlimit.SlidingLog && rand.IntN(3) == 0 {
		limit.Lease = limit.Per / 8 / time.Microsecond * time.Microsecond
	}
	return limit
}

func (s *stress) limiter(c *shardlimit.Client) (l *shardlimit.Limiter) {
	s.within("Limiter", 300*time.Millisecond, func(ctx context.Context) (err error) {
		l, err = c.Limiter(ctx, fmt.Sprint("l", rand.IntN(3)), s.limit())
		return err
	})
	if l != nil && rand.IntN(3) == 0 {
		l = l.As(fmt.Sprint("tenant", rand.IntN(20)), 1)
	}
	return l
}

// one makes a call for permits, or one that gives some back.
func (s *stress) one(c *shardlimit.Client) {
	l := s.limiter(c)
	if l == nil {
		return
	}
	n := 1 + rand.Int64N(30)
	calls := limittest.Calls(l, n, shardlimit.Decision{})
	for _, name := range []string{"SetLimit", "Reset", "Rebalance", "Delete"} {
		delete(calls, name) // these are changes
	}
	maps.Copy(calls, map[string]func(context.Context) error{
		"Settle": func(ctx context.Context) error {
			d, err := l.AllowN(ctx, n)
			return errors.Join(err, l.Settle(ctx, d, 0), limittest.Once(l.Settle(ctx, d, 0)))
		},
		"Reserve": func(ctx context.Context) error {
			r, err := l.Reserve(ctx, n)
			if err == nil {
				err = r.Cancel(ctx)
			}
			return err
		},
		"Set": func(ctx context.Context) error {
			other := s.limiter(c)
			if other == nil {
				return nil
			}
			set := shardlimit.All(l.N(2), other.N(1))
			d, err := set.Allow(ctx)
			return errors.Join(err, set.Settle(ctx, d, 0, 0), set.Wait(ctx))
		},
		"Family": func(ctx context.Context) error {
			f, err := c.Family(ctx, "f", shardlimit.Limit{Permits: 50, Per: 100 * time.Millisecond})
			if err != nil {
				return err
			}
			key := f.Limiter(fmt.Sprint("key", rand.IntN(5)))
			_, err = key.AllowN(ctx, min(n, 10))
			_, looked := key.Peek(ctx)
			return errors.Join(err, looked, key.Wait(ctx))
		},
	})
	for name, call := range calls { // any of them
		s.within(name, rand.N(200*time.Millisecond)+time.Millisecond, call)
		return
	}
}

// change changes a limit, or what serves it.
func (s *stress) change(c *shardlimit.Client) {
	l := s.limiter(c)
	if l == nil {
		return
	}
	calls := []func(context.Context) error{
		func(ctx context.Context) error { return l.SetLimit(ctx, s.limit()) },
		l.Delete,
		func(ctx context.Context) error { // while capacity moves
			_, err := l.AllowUpTo(ctx, 1000)
			return errors.Join(err, l.SetLimit(ctx, s.limit()), l.Delete(ctx))
		},
		l.Reset,
		l.Rebalance,
		c.Rebalance,
		func(ctx context.Context) error { return limittest.Err(c.Open(ctx, "l0")) },
		func(ctx context.Context) error {
			f, err := c.Family(ctx, "f", shardlimit.PerSecond(50))
			if err == nil {
				err = f.SetLimit(ctx, shardlimit.PerSecond(50+rand.Int64N(9)))
			}
			return err
		},
	}
	s.within("a change", rand.N(400*time.Millisecond)+time.Millisecond, calls[rand.IntN(len(calls))])
}

// within makes a call with a context that ends soon.
func (s *stress) within(name string, timeout time.Duration, call func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	began := time.Now()
	err := call(ctx)
	took := time.Since(began)
	s.calls.Add(1)
	if took > timeout+hung {
		s.Errorf("%s took %s with a context of %s: %v", name, took, timeout, err)
	}
	if err == nil || known(err) {
		return
	}
	if _, told := s.kinds.LoadOrStore(err.Error(), true); !told {
		s.Errorf("%s: %v", name, err)
	}
}

// known reports whether a caller can tell what an error is.
func known(err error) bool {
	return errors.As(err, new(*shardlimit.ShardError)) || slices.ContainsFunc([]error{
		shardlimit.ErrUnavailable, shardlimit.ErrExceedsLimit, shardlimit.ErrWaitTooLong, shardlimit.ErrTooFarAhead,
		shardlimit.ErrClosed, shardlimit.ErrNotFound, context.DeadlineExceeded, context.Canceled,
	}, func(kind error) bool { return errors.Is(err, kind) })
}

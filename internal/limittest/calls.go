package limittest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Grants asks for single permits until one is denied.
func Grants(tb testing.TB, l *shardlimit.Limiter) (n int) {
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

// DrainSlowly takes all permits, one by one and spread over time, so that they come
// back one by one.
func DrainSlowly(tb testing.TB, l *shardlimit.Limiter) {
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

// TakeAll has callers ask for n permits until each is denied, and returns how
// many they got.
func TakeAll(t *testing.T, limiters []*shardlimit.Limiter, callers int, n int64) int64 {
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

// Answers is how many calls ended in which way.
type Answers struct {
	mu                                sync.Mutex
	Allowed, Denied, Degraded, Failed int
	Permits                           int64
	Least, Slowest                    time.Duration // RetryAfter of denials, duration of calls
	Err                               error         // one of those that failed
}

func (s *Answers) add(d shardlimit.Decision, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Permits += d.Granted
	s.Slowest = max(s.Slowest, took)
	switch {
	case err != nil:
		s.Failed, s.Err = s.Failed+1, err
	case d.Degraded:
		s.Degraded++
	case d.Allowed:
		s.Allowed++
	default:
		s.Denied++
		if s.Least == 0 || d.RetryAfter < s.Least {
			s.Least = d.RetryAfter
		}
	}
}

// Together makes n calls at once and tells what they said.
func Together(n int, call func(i int) (shardlimit.Decision, error)) *Answers {
	var s Answers
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			began := time.Now()
			d, err := call(i)
			s.add(d, err, time.Since(began))
		})
	}
	wg.Wait()
	return &s
}

// Shortly is a context that ends with the test or soon.
func Shortly(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// MustGet takes n permits.
func MustGet(tb testing.TB, l *shardlimit.Limiter, n int64) shardlimit.Decision {
	tb.Helper()
	d, err := l.AllowN(tb.Context(), n)
	if err != nil || !d.Allowed {
		tb.Fatalf("%s: %d permits: %+v, %v", l.Name(), n, d, err)
	}
	return d
}

// Served takes n permits by what a node says, not by the outage policy.
func Served(tb testing.TB, l *shardlimit.Limiter, n int64) shardlimit.Decision {
	tb.Helper()
	d := MustGet(tb, l, n)
	if d.Degraded {
		tb.Fatalf("%s: %d permits: %+v", l.Name(), n, d)
	}
	return d
}

// Denied asks for n permits, of which none may be granted.
func Denied(tb testing.TB, l *shardlimit.Limiter, n int64) shardlimit.Decision {
	tb.Helper()
	d, err := l.AllowN(tb.Context(), n)
	if err != nil || d.Allowed {
		tb.Fatalf("%s: %d permits: %+v, %v", l.Name(), n, d, err)
	}
	return d
}

// asked is a limiter or a set.
type asked interface {
	Allow(ctx context.Context) (shardlimit.Decision, error)
}

// Passes makes a call that must be allowed.
func Passes(tb testing.TB, who asked) shardlimit.Decision {
	tb.Helper()
	d, err := who.Allow(tb.Context())
	if err != nil || !d.Allowed {
		tb.Fatalf("%+v, %v", d, err)
	}
	return d
}

// Refuses makes a call that must be denied.
func Refuses(tb testing.TB, who asked) shardlimit.Decision {
	tb.Helper()
	d, err := who.Allow(tb.Context())
	if err != nil || d.Allowed {
		tb.Fatalf("%+v, %v", d, err)
	}
	return d
}

// Must ends the test if there is an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Err is the error of a call that returns something else, too.
func Err[T any](_ T, err error) error { return err }

// ErrorIs fails the test unless an error is the one that is wanted.
func ErrorIs(tb testing.TB, err, want error, of ...any) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Errorf("%v: %v, want %v", of, err, want)
	}
}

// Exhaust takes as many permits as there are.
func Exhaust(tb testing.TB, l *shardlimit.Limiter, most int64) (n int64) {
	tb.Helper()
	for {
		d, err := l.AllowUpTo(tb.Context(), most)
		if err != nil {
			tb.Fatalf("%s: after %d: %v", l.Name(), n, err)
		}
		if n += d.Granted; d.Granted == 0 {
			return n
		}
	}
}

// AtOnce calls for each of so many keys, numbered from there, at the same time, and returns how the
// calls ended.
func AtOnce(ctx context.Context, users *shardlimit.Family, from, keys int) (granted []int64, errs []error) {
	granted, errs = make([]int64, keys), make([]error, keys)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			d, err := users.Limiter(fmt.Sprint("user ", from+i)).Allow(ctx)
			granted[i], errs[i] = d.Granted, err
		})
	}
	wg.Wait()
	return granted, errs
}

// Once is the error of a Settle that may be one of several.
func Once(err error) error {
	if errors.Is(err, shardlimit.ErrSettled) {
		return nil
	}
	return err
}

// Set returns a Set that takes n permits of each of the limits.
func Set(n int64, limits ...*shardlimit.Limiter) *shardlimit.Set {
	var parts []shardlimit.Part
	for _, l := range limits {
		parts = append(parts, l.N(n))
	}
	return shardlimit.All(parts...)
}

// Calls are all calls of a limiter that may send something, for n permits where they take some;
// granted is what it settles.
func Calls(l *shardlimit.Limiter, n int64, granted shardlimit.Decision) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Allow":        func(ctx context.Context) error { _, err := l.Allow(ctx); return err },
		"AllowN":       func(ctx context.Context) error { _, err := l.AllowN(ctx, n); return err },
		"AllowUpTo":    func(ctx context.Context) error { _, err := l.AllowUpTo(ctx, n); return err },
		"Wait":         l.Wait,
		"WaitN":        func(ctx context.Context) error { return l.WaitN(ctx, n) },
		"Reserve":      func(ctx context.Context) error { _, err := l.Reserve(ctx, n); return err },
		"Settle":       func(ctx context.Context) error { return l.Settle(ctx, granted, 0) },
		"Set.Allow":    func(ctx context.Context) error { _, err := Set(1, l).Allow(ctx); return err },
		"Set.Wait":     func(ctx context.Context) error { return Set(1, l).Wait(ctx) },
		"Peek":         func(ctx context.Context) error { _, err := l.Peek(ctx); return err },
		"Participants": func(ctx context.Context) error { _, err := l.Participants(ctx); return err },
		"SetLimit":     func(ctx context.Context) error { return l.SetLimit(ctx, shardlimit.PerSecond(20)) },
		"Reset":        l.Reset,
		"Rebalance":    l.Rebalance,
		"Delete":       l.Delete,
	}
}

// Opens are the calls of a client that open a limit of any kind, which it may know or not.
func Opens(c *shardlimit.Client, name string) map[string]func(context.Context) error {
	limit := shardlimit.PerHour(10)
	return map[string]func(context.Context) error{
		"Limiter":    func(ctx context.Context) error { _, err := c.Limiter(ctx, name, limit); return err },
		"Family":     func(ctx context.Context) error { _, err := c.Family(ctx, name, limit); return err },
		"Slots":      func(ctx context.Context) error { _, err := c.Slots(ctx, name, 2, time.Minute); return err },
		"Open":       func(ctx context.Context) error { _, err := c.Open(ctx, name); return err },
		"OpenFamily": func(ctx context.Context) error { _, err := c.OpenFamily(ctx, name); return err },
	}
}

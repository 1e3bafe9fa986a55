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

// Must ends the test if there is an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
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

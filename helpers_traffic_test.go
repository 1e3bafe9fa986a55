package shardlimit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
)

// patience is how long a test waits for what must come by itself, before it fails.
const patience = 2 * time.Minute

// awaitThat polls until the condition holds; the pause only spares the processor.
func awaitThat(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// traffic is callers that take permits as hard as they can, in different ways
// and sizes, and the history of what they were granted. A grant that was given
// back does not count as admitted.
type traffic struct {
	record   history.Recorder
	calls    atomic.Int64
	denials  atomic.Int64
	refunds  atomic.Int64
	failures atomic.Int64
	admitted atomic.Int64  // permits, less those given back
	dying    bool          // a server is killed meanwhile: what it granted cannot be given back
	rest     time.Duration // of a caller after each call, which spares the processor
	nodding  time.Duration // the longest nap after a denial; 0: 20 ms
	journal  io.Writer     // grants are written to it at once; nil: only recorded

	mu      sync.Mutex
	failure error // the first

	end    context.CancelFunc
	ending context.Context
	wg     sync.WaitGroup
	inUse
}

// handle is a limiter that callers use, until that of another process takes its place.
type handle = atomic.Pointer[shardlimit.Limiter]

// inUse is the handles of all callers, in the order in which they began.
type inUse struct {
	using   sync.Mutex
	handles []*handle
}

func (u *inUse) use(l *shardlimit.Limiter) *handle {
	h := &handle{}
	h.Store(l)
	u.using.Lock()
	defer u.using.Unlock()
	u.handles = append(u.handles, h)
	return h
}

// hand has the callers that use a limiter use this one from now on.
func (u *inUse) hand(i int, l *shardlimit.Limiter) {
	u.using.Lock()
	defer u.using.Unlock()
	u.handles[i].Store(l)
}

// newTraffic is no callers yet. They end with the test at the latest.
func newTraffic(tb testing.TB) *traffic {
	t := makeTraffic()
	tb.Cleanup(func() { _, _ = t.stop() }) // in case the test failed before it looked
	return t
}

func makeTraffic() *traffic {
	t := &traffic{}
	t.ending, t.end = context.WithCancel(context.Background())
	return t
}

// start begins the given number of callers on each of the limiters.
func (t *traffic) start(callers int, limiters ...*shardlimit.Limiter) {
	for i, l := range limiters {
		h := t.use(l)
		for k := range callers {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			t.wg.Go(func() {
				tally := t.record.Tally()
				for t.ending.Err() == nil {
					t.call(h, rng, tally)
					if t.rest > 0 {
						t.nap(t.rest)
					}
				}
			})
		}
	}
}

// stop ends all callers and returns the history, and the first error any met.
func (t *traffic) stop() ([]history.Op, error) {
	t.end()
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.record.Ops(), t.failure
}

// during runs the traffic for a while.
func (t *traffic) during(d time.Duration) ([]history.Op, error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
	return t.stop()
}

func (t *traffic) call(h *handle, rng *rand.Rand, tally *history.Tally) {
	l := h.Load()
	limit := l.Limit()
	n, upTo := t.size(limit.Permits, rng), rng.IntN(3) == 0
	ask := l.AllowN
	if upTo {
		ask = l.AllowUpTo
	}
	t.calls.Add(1)
	start := history.Now()
	d, err := ask(context.Background(), n)
	end := history.Now()
	switch {
	case errors.Is(err, shardlimit.ErrExceedsLimit):
		// The limit was lowered after it was looked at.
	case errors.Is(err, shardlimit.ErrClosed) && h.Load() != l:
		// Its process has ended.
	case err != nil:
		t.fail(err)
		t.nap(t.nodding)
	case d.Allowed != (d.Granted > 0) || d.Granted > n || !upTo && d.Allowed && d.Granted != n:
		t.fail(fmt.Errorf("asked for %d: %+v", n, d))
	case !d.Allowed:
		t.denials.Add(1)
		t.nap(min(d.RetryAfter, limit.Per/8, cmp.Or(t.nodding, 20*time.Millisecond)))
	case rng.IntN(10) == 0:
		if err := l.Settle(context.Background(), d, 0); err != nil {
			if !t.dying && h.Load() == l {
				t.fail(err)
			}
			return
		}
		t.refunds.Add(1)
	default:
		t.admitted.Add(d.Granted)
		tally.Add(start, end, d.Granted)
		t.write(history.Op{Start: start, End: end, Permits: d.Granted})
	}
}

// write puts a grant into the journal, so that it is known should the process be killed.
func (t *traffic) write(op history.Op) {
	if t.journal == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := history.Write(t.journal, []history.Op{op}); err != nil && t.failure == nil {
		t.failure = err
	}
}

// size draws how much to ask for: mostly little, now and then half of all.
func (t *traffic) size(permits int64, rng *rand.Rand) int64 {
	most := int64(1)
	switch rng.IntN(20) {
	case 0:
		most = permits / 2
	case 1, 2, 3, 4:
		most = permits / 20
	case 5, 6, 7, 8, 9:
		most = min(permits, 5)
	}
	return 1 + rng.Int64N(max(most, 1))
}

// nap spares the processor between denials.
func (t *traffic) nap(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ending.Done():
	}
}

func (t *traffic) fail(err error) {
	t.failures.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
}

func (t *traffic) String() string {
	return fmt.Sprintf("%d calls, %d denied, %d given back, %d failed", t.calls.Load(), t.denials.Load(),
		t.refunds.Load(), t.failures.Load())
}

// awaitBusy waits until some window holds half of the limit: of one in which next to nothing is
// admitted, because the machine is busy, it shows little that it holds no more than that.
func awaitBusy(tb testing.TB, limit shardlimit.Limit, record *history.Recorder) {
	tb.Helper()
	awaitThat(tb, "half of the limit is used in a window", func() bool {
		time.Sleep(limit.Per / 4) // spares the processor
		worst, _ := history.Check(limit.Per, limit.Permits, record.Ops())
		return worst.Permits >= limit.Permits/2
	})
}

// keepsTo fails the test if any window of the history holds more than the limit.
func keepsTo(tb testing.TB, limit shardlimit.Limit, ops []history.Op) history.Window {
	tb.Helper()
	worst, ok := history.Check(limit.Per, limit.Permits, ops)
	if !ok {
		tb.Errorf("%s: %s", limit, worst)
	}
	return worst
}

// group is several processes of a fleet that share one limiter.
func (f fleet) group(tb testing.TB, processes int, name string, limit shardlimit.Limit,
	change ...func(*shardlimit.Config)) []*shardlimit.Limiter {
	tb.Helper()
	limiters := make([]*shardlimit.Limiter, processes)
	for i := range limiters {
		limiters[i] = limiter(tb, f.client(tb, change...), name, limit)
	}
	return limiters
}

// asOne has the limiters call for one participant, so that nothing is kept from
// one of them for the sake of another.
func asOne(limiters []*shardlimit.Limiter) []*shardlimit.Limiter {
	for i, l := range limiters {
		limiters[i] = l.As("all", 1)
	}
	return limiters
}

// since is what began at or after an instant.
func since(from int64, ops []history.Op) (later []history.Op) {
	for _, op := range ops {
		if op.Start >= from {
			later = append(later, op)
		}
	}
	return later
}

// between is what lies wholly between two instants.
func between(from, to int64, ops []history.Op) (inside []history.Op) {
	for _, op := range since(from, ops) {
		if op.End < to {
			inside = append(inside, op)
		}
	}
	return inside
}

// said is how many calls ended in which way.
type said struct {
	mu                                sync.Mutex
	allowed, denied, degraded, failed int
	permits                           int64
	least, slowest                    time.Duration // RetryAfter of denials, duration of calls
	err                               error         // one of those that failed
}

func (s *said) add(d shardlimit.Decision, err error, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.permits += d.Granted
	s.slowest = max(s.slowest, took)
	switch {
	case err != nil:
		s.failed, s.err = s.failed+1, err
	case d.Degraded:
		s.degraded++
	case d.Allowed:
		s.allowed++
	default:
		s.denied++
		if s.least == 0 || d.RetryAfter < s.least {
			s.least = d.RetryAfter
		}
	}
}

// together makes n calls at once and tells what they said.
func together(n int, call func(i int) (shardlimit.Decision, error)) *said {
	var s said
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

// shortly is a context that ends with the test or soon.
func shortly(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// mustReserve reserves n permits.
func mustReserve(t *testing.T, l *shardlimit.Limiter, n int64) *shardlimit.Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	if r.Permits() != n || r.Degraded() {
		t.Fatalf("%d permits reserved, degraded %t", r.Permits(), r.Degraded())
	}
	return r
}

// mustGet takes n permits.
func mustGet(t *testing.T, l *shardlimit.Limiter, n int64) {
	t.Helper()
	if d, err := l.AllowN(t.Context(), n); err != nil || !d.Allowed {
		t.Fatalf("%d permits: %+v, %v", n, d, err)
	}
}

func reserveAndUse(t *testing.T, l *shardlimit.Limiter, rng *rand.Rand, tally *history.Tally, limit shardlimit.Limit,
	made, cancelled, ahead *atomic.Int64) {
	n := 1 + rng.Int64N(limit.Permits/2)
	start := history.Now()
	r, err := l.Reserve(context.Background(), n)
	if errors.Is(err, shardlimit.ErrTooFarAhead) || errors.Is(err, shardlimit.ErrWaitTooLong) {
		time.Sleep(limit.Per / 10) // spares the processor
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	delay := r.Delay()
	end := history.Now()
	made.Add(1)
	if delay > 0 {
		ahead.Add(1)
		if rng.IntN(3) == 0 {
			if err := r.Cancel(context.Background()); err != nil {
				t.Error(err)
			}
			cancelled.Add(1)
			return
		}
	}
	tally.Add(start+int64(delay), end+int64(delay), n)
}

// joinLine begins to wait for n permits and returns when the caller stands in the line.
func joinLine(t *testing.T, ctx context.Context, l *shardlimit.Limiter, n int64, then func(error)) {
	t.Helper()
	place := l.Waiting() + 1
	go func() { then(l.WaitN(ctx, n)) }()
	awaitThat(t, "one more waits", func() bool { return l.Waiting() == place })
}

// all takes as many permits as there are.
func all(tb testing.TB, l *shardlimit.Limiter, most int64) (n int64) {
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

// admits is the most that may be used in so many windows' time of permits that are used when they
// are due.
func admits(limit shardlimit.Limit, windows int64) int64 {
	most := windows * limit.Permits
	switch limit.Algorithm {
	case shardlimit.FixedWindow: // it may begin and end inside of one
		most += limit.Permits
	case shardlimit.TokenBucket:
		most += limit.Burst
	case shardlimit.LeakyBucket: // who has several turns acts with the last of them
		most += limit.Permits / 2
	}
	return most
}

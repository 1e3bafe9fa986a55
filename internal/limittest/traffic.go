package limittest

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

// Traffic is callers that take far more permits than there are, in different ways
// and sizes, and the history of what they were granted. A grant that was given
// back does not count as admitted.
type Traffic struct {
	Record   history.Recorder
	Calls    atomic.Int64
	denials  atomic.Int64
	refunds  atomic.Int64
	Failures atomic.Int64
	Admitted atomic.Int64  // permits, less those given back
	Dying    bool          // a server is killed meanwhile: what it granted cannot be given back
	Rest     time.Duration // of a caller after each call, which spares the processor; 0: 4 ms
	Nodding  time.Duration // the longest nap after a denial; 0: 20 ms
	journal  io.Writer     // grants are written to it at once; nil: only recorded

	mu      sync.Mutex
	failure error // the first

	End    context.CancelFunc
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

// Hand has the callers that use a limiter use this one from now on.
func (u *inUse) Hand(i int, l *shardlimit.Limiter) {
	u.using.Lock()
	defer u.using.Unlock()
	u.handles[i].Store(l)
}

// NewTraffic is no callers yet. They end with the test at the latest.
func NewTraffic(tb testing.TB) *Traffic {
	t := MakeTraffic()
	tb.Cleanup(func() { _, _ = t.Stop() }) // in case the test failed before it looked
	return t
}

// MakeTraffic is NewTraffic without a test that ends it.
func MakeTraffic() *Traffic {
	t := &Traffic{}
	t.ending, t.End = context.WithCancel(context.Background())
	return t
}

// Start begins the given number of callers on each of the limiters.
func (t *Traffic) Start(callers int, limiters ...*shardlimit.Limiter) {
	for i, l := range limiters {
		h := t.use(l)
		for k := range callers {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			t.wg.Go(func() {
				tally := t.Record.Tally()
				for t.ending.Err() == nil {
					t.call(h, rng, tally)
					t.nap(cmp.Or(t.Rest, 4*time.Millisecond))
				}
			})
		}
	}
}

// Stop ends all callers and returns the history, and the first error any met.
func (t *Traffic) Stop() ([]history.Op, error) {
	t.End()
	t.wg.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Record.Ops(), t.failure
}

// Ended ends all callers, none of which may have met an error, and returns the history.
func (t *Traffic) Ended(tb testing.TB) []history.Op {
	tb.Helper()
	ops, err := t.Stop()
	if err != nil {
		tb.Errorf("a call failed: %v", err)
	}
	tb.Log(t)
	return ops
}

// KeepsTo ends all callers after a while. None may have met an error, nor may any window hold more
// than the limit.
func (t *Traffic) KeepsTo(tb testing.TB, limit shardlimit.Limit, after time.Duration) {
	tb.Helper()
	time.Sleep(after)
	worst := KeepsTo(tb, limit, t.Ended(tb))
	tb.Logf("worst window: %d of %d", worst.Permits, limit.Permits)
}

func (t *Traffic) call(h *handle, rng *rand.Rand, tally *history.Tally) {
	l := h.Load()
	limit := l.Limit()
	n, upTo := t.size(limit.Permits, rng), rng.IntN(3) == 0
	ask := l.AllowN
	if upTo {
		ask = l.AllowUpTo
	}
	t.Calls.Add(1)
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
		t.nap(t.Nodding)
	case d.Allowed != (d.Granted > 0) || d.Granted > n || !upTo && d.Allowed && d.Granted != n:
		t.fail(fmt.Errorf("asked for %d: %+v", n, d))
	case !d.Allowed:
		t.denials.Add(1)
		t.nap(min(d.RetryAfter, limit.Per/8, cmp.Or(t.Nodding, 20*time.Millisecond)))
	case rng.IntN(10) == 0:
		if err := l.Settle(context.Background(), d, 0); err != nil {
			if !t.Dying && h.Load() == l {
				t.fail(err)
			}
			return
		}
		t.refunds.Add(1)
	default:
		t.Admitted.Add(d.Granted)
		tally.Add(start, end, d.Granted)
		t.write(history.Op{Start: start, End: end, Permits: d.Granted})
	}
}

// write puts a grant into the journal, so that it is known should the process be killed.
func (t *Traffic) write(op history.Op) {
	if t.journal == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := history.Write(t.journal, op); err != nil && t.failure == nil {
		t.failure = err
	}
}

// size draws how much to ask for: mostly little, now and then half of all.
func (t *Traffic) size(permits int64, rng *rand.Rand) int64 {
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
func (t *Traffic) nap(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ending.Done():
	}
}

func (t *Traffic) fail(err error) {
	t.Failures.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failure == nil {
		t.failure = err
	}
}

func (t *Traffic) String() string {
	return fmt.Sprintf("%d calls, %d denied, %d given back, %d failed", t.Calls.Load(), t.denials.Load(),
		t.refunds.Load(), t.Failures.Load())
}

// Group is several processes of a fleet that share one limiter.
func (f Fleet) Group(tb testing.TB, processes int, name string, limit shardlimit.Limit,
	change ...func(*shardlimit.Config)) []*shardlimit.Limiter {
	tb.Helper()
	limiters := make([]*shardlimit.Limiter, processes)
	for i := range limiters {
		limiters[i] = Limiter(tb, f.Client(tb, change...), name, limit)
	}
	return limiters
}

// AsOne has the limiters call for one participant, so that nothing is kept from
// one of them for the sake of another.
func AsOne(limiters []*shardlimit.Limiter) []*shardlimit.Limiter {
	for i, l := range limiters {
		limiters[i] = l.As("all", 1)
	}
	return limiters
}

// Harmless tells errors that callers may see while nodes are broken.
func Harmless(err error) bool {
	return err == nil || IsOutage(err) || errors.Is(err, shardlimit.ErrNotFound)
}

// IsOutage tells errors that no shard was there for a call.
func IsOutage(err error) bool {
	return errors.Is(err, shardlimit.ErrUnavailable) || errors.As(err, new(*shardlimit.ConfigError))
}

// Demand asks for permits through each limiter in turn, one every pause of the bubble's time, and
// keeps the history.
type Demand struct {
	t     *testing.T
	Begun time.Time
	end   chan struct{}
	wg    sync.WaitGroup
	ops   []history.Op
	inUse
}

// NewDemand begins to ask, and goes on until Stop.
func NewDemand(t *testing.T, pause time.Duration, limiters ...*shardlimit.Limiter) *Demand {
	d := &Demand{t: t, Begun: time.Now(), end: make(chan struct{})}
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
			start := d.Now()
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
			d.ops = append(d.ops, history.Op{Start: start, End: d.Now(), Permits: got.Granted})
		}
	})
	return d
}

// Now is the time of the history: since the demand began.
func (d *Demand) Now() int64 { return int64(time.Since(d.Begun)) }

// Stop ends the demand and returns what it got.
func (d *Demand) Stop() []history.Op {
	close(d.end)
	d.wg.Wait()
	return d.ops
}

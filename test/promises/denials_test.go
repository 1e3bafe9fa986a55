package promises

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// P4, P7: a process alone makes all kinds of calls at random. It is refused only what is not free,
// and RetryAfter holds, but for several permits of a bucket that several shards have.
func TestWhatIsRefusedIsNotFree(t *testing.T) {
	var ahead, cancelled int
	for seed := range uint64(extent.Some(300)) {
		limittest.InBubble(t, 1+int(seed%2), func(t *testing.T, f limittest.Fleet) {
			c := newAloneCaller(t, f, rand.New(rand.NewPCG(seed, 1)))
			for range 40 {
				c.step()
			}
			if t.Failed() {
				t.Fatalf("seed %d, %v:\n%s", seed, c.limit, strings.Join(c.log, "\n"))
			}
			ahead, cancelled = ahead+c.ahead, cancelled+c.cancelled
		})
	}
	if ahead < 20 || cancelled < 20 {
		t.Errorf("%d were booked ahead, %d cancelled", ahead, cancelled)
	}
}

// aloneCaller is the one caller of a limit, and what it can still settle or cancel.
type aloneCaller struct {
	*shardlimit.Limiter
	t       *testing.T
	rng     *rand.Rand
	limit   shardlimit.Limit
	granted []shardlimit.Decision
	booked  []*shardlimit.Reservation
	log     []string
	looks   *shardlimit.Limiter // of another process: what it sees this one does not learn

	ahead, cancelled int // bookings
}

func newAloneCaller(t *testing.T, f limittest.Fleet, rng *rand.Rand) *aloneCaller {
	limit := shardlimit.Limit{
		Permits: []int64{1, 3, 10, 25, 100, 1000}[rng.IntN(6)],
		Per:     []time.Duration{100 * time.Millisecond, time.Second, time.Minute, time.Hour}[rng.IntN(4)],
		Algorithm: []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter, shardlimit.FixedWindow,
			shardlimit.TokenBucket}[rng.IntN(4)],
		Shards: []int{1, 1, 2, 4}[rng.IntN(4)],
	}
	if int64(limit.Shards) > limit.Permits {
		limit.Shards = 1
	}
	return &aloneCaller{Limiter: f.Limiter(t, limit), looks: f.Limiter(t, limit), t: t, rng: rng, limit: limit}
}

func (c *aloneCaller) says(format string, args ...any) {
	c.log = append(c.log, time.Now().Format("04:05.000000 ")+fmt.Sprintf(format, args...))
}

// free returns how many permits the shards have.
func (c *aloneCaller) free() int64 {
	state, err := c.looks.Peek(c.t.Context())
	limittest.Must(c.t, err)
	return state.Remaining
}

func (c *aloneCaller) step() {
	ctx, n := c.t.Context(), 1+c.rng.Int64N(c.limit.Permits)
	if c.rng.IntN(2) == 0 {
		n = 1
	}
	switch c.rng.IntN(10) {
	case 0, 1, 2, 3:
		c.allow(n)
	case 4:
		d, err := c.AllowUpTo(ctx, n)
		limittest.Must(c.t, err)
		c.says("up to %d: %d", n, d.Granted)
		c.granted = append(c.granted, d)
		if left := c.free(); d.Granted < n && left > 0 {
			c.t.Errorf("%d more are free than were granted", left)
		}
	case 5, 6:
		r, err := c.Reserve(ctx, n)
		if err != nil {
			if !errors.Is(err, shardlimit.ErrTooFarAhead) {
				c.t.Error(err)
			}
			return
		}
		c.says("%d are booked in %v", n, r.Delay())
		if c.booked = append(c.booked, r); r.Delay() > 0 {
			c.ahead++
		}
	case 7:
		if i := len(c.booked) - 1; i >= 0 {
			c.says("cancelled")
			limittest.Must(c.t, c.booked[i].Cancel(ctx))
			c.cancelled++
			c.booked = c.booked[:i]
		}
	case 8:
		if i := len(c.granted) - 1; i >= 0 {
			used := c.rng.Int64N(2*c.granted[i].Granted + 1)
			c.says("%d settled as %d", c.granted[i].Granted, used)
			limittest.Must(c.t, c.Settle(ctx, c.granted[i], used))
			c.granted = c.granted[:i]
		}
	case 9:
		time.Sleep(time.Duration(c.rng.Int64N(int64(c.limit.Per)) / (1 + 19*c.rng.Int64N(2))))
		c.says("rested")
	}
}

// allow asks for n permits, and if it is refused perhaps again when it was told to.
func (c *aloneCaller) allow(n int64) {
	ctx := c.t.Context()
	d, err := c.AllowN(ctx, n)
	limittest.Must(c.t, err)
	c.says("%d: %t, again in %v", n, d.Allowed, d.RetryAfter)
	if d.Allowed {
		c.granted = append(c.granted, d)
		return
	}
	// Shards count whole microseconds: one of several may have had something an instant earlier.
	if left := c.free(); left >= n && (c.limit.Shards < 2 || d.RetryAfter > 10*time.Microsecond) {
		c.t.Errorf("%d are refused, and %d are free", n, left)
	}
	// A bucket may have less once its bookings are due: what they did not need is full by then.
	if n > 1 && c.limit.Shards > 1 && c.limit.Algorithm == shardlimit.TokenBucket || c.rng.IntN(3) > 0 {
		return
	}
	time.Sleep(d.RetryAfter)
	if d, err = c.AllowN(ctx, n); err != nil || !d.Allowed {
		c.t.Errorf("%d are refused after RetryAfter: %+v, %v", n, d, err)
	}
	c.granted = append(c.granted, d)
}

// A booking over two buckets is dated a little later than each has its permits. The buckets gain
// more until then. Nobody has booked that, so it is not refused from memory.
func TestABookingsSlackIsNotRefused(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.Limit{Permits: 1000, Per: 100 * time.Millisecond, Shards: 2,
			Algorithm: shardlimit.TokenBucket})
		allow := func(n int64, want bool) {
			t.Helper()
			if d, err := l.AllowN(t.Context(), n); err != nil || d.Allowed != want {
				t.Fatalf("%d: %+v, %v", n, d, err)
			}
		}
		allow(1000, true)
		r, err := l.Reserve(t.Context(), 424)
		if err != nil || r.Delay() < 43*time.Millisecond {
			t.Fatalf("%v, %v", r, err)
		}
		allow(729, false) // looks at what is ahead
		time.Sleep(2 * time.Millisecond)
		allow(2, true)
	})
}

package waiting

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// mustReserve reserves n permits.
func mustReserve(t *testing.T, l *shardlimit.Limiter, n int64) *shardlimit.Reservation {
	t.Helper()
	r, err := l.Reserve(t.Context(), n)
	limittest.Must(t, err)
	if r.Permits() != n || r.Degraded() {
		t.Fatalf("%d permits reserved, degraded %t", r.Permits(), r.Degraded())
	}
	return r
}

// reserveAndUse reserves some permits and uses them when they are due, or cancels that now and
// then.
func reserveAndUse(t *testing.T, l *shardlimit.Limiter, rng *rand.Rand, tally *history.Tally,
	ahead, cancelled *atomic.Int64) {
	n := 1 + rng.Int64N(l.Limit().Permits/2)
	start := history.Now()
	r, err := l.Reserve(context.Background(), n)
	if errors.Is(err, shardlimit.ErrTooFarAhead) || errors.Is(err, shardlimit.ErrWaitTooLong) {
		time.Sleep(l.Limit().Per / 10) // spares the processor
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	delay := r.Delay()
	end := history.Now()
	if delay > 0 {
		ahead.Add(1)
		if rng.IntN(3) == 0 {
			limittest.Must(t, r.Cancel(context.Background()))
			cancelled.Add(1)
			return
		}
	}
	tally.Add(start+int64(delay), end+int64(delay), n)
}

// joinLine has somebody wait for permits and returns when it stands in the line.
func joinLine(t *testing.T, l *shardlimit.Limiter, wait func()) {
	t.Helper()
	place := limittest.Waiting(l) + 1
	go wait()
	limittest.AwaitThat(t, "one more waits", func() bool { return limittest.Waiting(l) == place })
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

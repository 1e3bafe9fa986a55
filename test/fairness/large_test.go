package fairness

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestALargeWaiterIsNotStarved: others take each permit as it comes back, and yet half of the limit
// comes together, within two windows, to a participant that has not had its part.
func TestALargeWaiterIsNotStarved(t *testing.T) {
	for _, limit := range []shardlimit.Limit{
		{Shards: 1},
		{Shards: 8},
		{Shards: 4, Algorithm: shardlimit.SlidingCounter},
		{Shards: 4, Algorithm: shardlimit.FixedWindow},
		{Shards: 4, Algorithm: shardlimit.TokenBucket, Burst: 160},
	} {
		limit.Permits, limit.Per = 160, 400*time.Millisecond
		if !extent.Full && limit.Algorithm != shardlimit.SlidingLog {
			continue // only the script is another
		}
		t.Run(fmt.Sprint(limit.Algorithm, " over ", limit.Shards), func(t *testing.T) {
			inBubble(t, func(t *testing.T, f limittest.Fleet) { waitsAmongSingles(t, f, limit) })
		})
	}
}

func waitsAmongSingles(t *testing.T, f limittest.Fleet, limit shardlimit.Limit) {
	limiters := f.Group(t, 3, "l", limit)
	d := newDiary(t)
	defer d.end()
	var singles atomic.Int64
	for _, l := range limiters[1:] {
		for range 8 {
			d.goOn(l, 1, &singles)
		}
	}
	limittest.AwaitThat(t, "the limit is in full use", func() bool { return singles.Load() > 2*limit.Permits })
	const windows = 2
	tally := d.record.Tally()
	for range 3 {
		time.Sleep(2 * limit.Per) // its part is a third of the limit: what it had before is paid for
		before, start := singles.Load(), time.Now()
		limittest.Must(t, d.wait(limittest.Shortly(t, limittest.Patience), tally, limiters[0], limit.Permits/2))
		overtook, took := singles.Load()-before, time.Since(start)
		if took > windows*limit.Per || overtook > limittest.Admits(limit, windows) {
			t.Errorf("%d others were served first, in %s", overtook, took)
		}
	}
	d.end()
	limittest.KeepsTo(t, limittest.Ceiling(limit), d.record.Ops())
}

// diary keeps the history of callers that wait.
type diary struct {
	begun  time.Time
	record history.Recorder
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newDiary(t *testing.T) *diary {
	d := &diary{begun: time.Now()}
	d.ctx, d.cancel = context.WithCancel(t.Context())
	return d
}

func (d *diary) wait(ctx context.Context, tally *history.Tally, l *shardlimit.Limiter, n int64) error {
	start := int64(time.Since(d.begun))
	err := l.WaitN(ctx, n)
	if err == nil {
		tally.Add(start, int64(time.Since(d.begun)+time.Microsecond), n) // the node tells microseconds
	}
	return err
}

// goOn begins a caller that waits for n permits, and then for the next n, and counts them.
func (d *diary) goOn(l *shardlimit.Limiter, n int64, count *atomic.Int64) {
	d.wg.Go(func() {
		for tally := d.record.Tally(); d.wait(d.ctx, tally, l, n) == nil; {
			count.Add(n)
		}
	})
}

// end ends those who go on.
func (d *diary) end() {
	d.cancel()
	d.wg.Wait()
}

package fairness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// On a machine that is slow callers come late and permits go unused, so no share is judged closely.
// It is enough that the others get half of what they want once; without a rule they get some 40.
func TestAHogOnAServer(t *testing.T) {
	limit := shardlimit.Limit{Permits: 400, Per: 500 * time.Millisecond, Shards: 1}
	for range 6 {
		limiters := limittest.Standalone(t).Group(t, 5, "l", limit)
		all := []*demander{{limiter: limiters[0], rate: 8000}}
		for _, l := range limiters[1:] {
			all = append(all, &demander{limiter: l, rate: 80}) // of the 160 each is entitled to
		}
		contend(t, limit, time.Second, 2*time.Second, all...)
		little := int64(0)
		for _, p := range all[1:] {
			little += p.granted.Load()
		}
		t.Logf("the hog got %d, the others %d of the 640 they wanted", all[0].granted.Load(), little)
		if little >= 320 || t.Failed() {
			return
		}
	}
	t.Error("every time the others got less than half of what they wanted")
}

// A lone participant is not paced: it gets the whole limit.
func TestOneParticipantAloneGetsTheWholeLimit(t *testing.T) {
	for _, shards := range []int{1, 8} {
		f := limittest.Standalone(t)
		limit := shardlimit.Limit{Permits: 400, Per: time.Minute, Shards: shards}
		var processes []*shardlimit.Limiter
		for _, l := range f.Group(t, 3, "l", limit) {
			processes = append(processes, l.As("alone", 1))
		}
		if got := limittest.TakeAll(t, processes, 4, 1); got != limit.Permits {
			t.Errorf("%d shards: got %d of %d", shards, got, limit.Permits)
		}
	}
}

func TestParticipantsThatCannotBe(t *testing.T) {
	l := limittest.Standalone(t).Limiter(t, shardlimit.PerSecond(10))
	for name, as := range map[string]*shardlimit.Limiter{
		"no name":        l.As("", 1),
		"a long name":    l.As(strings.Repeat("x", shardlimit.MaxName+1), 1),
		"no weight":      l.As("p", 0),
		"NaN":            l.As("p", math.NaN()),
		"too heavy":      l.As("p", shardlimit.MaxWeight+1),
		"of no weight":   l.As("p", -1),
		"without bounds": l.As("p", math.Inf(1)),
	} {
		if d, err := as.Allow(t.Context()); d.Allowed ||
			!errors.Is(err, shardlimit.ErrInvalidConfig) && !errors.Is(err, shardlimit.ErrInvalidName) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
		if err := as.Wait(t.Context()); err == nil {
			t.Errorf("%s may wait", name)
		}
	}
	if _, err := shardlimit.New(shardlimit.Config{Nodes: limittest.Standalone(t).Nodes, Weight: -2}); !errors.Is(err,
		shardlimit.ErrInvalidConfig) {
		t.Errorf("a negative weight: %v", err)
	}
}

// However much is asked for in vain, and however often, the shards are told a
// number that they accept.
func TestImmenseDemandIsReported(t *testing.T) {
	for _, limit := range []shardlimit.Limit{
		{Permits: 10, Per: 100 * time.Millisecond, Shards: 1},
		{Permits: shardlimit.MaxPermits, Per: 100 * time.Millisecond, Shards: 2},
	} {
		limiters := limittest.Standalone(t).Group(t, 2, "l", limit)
		for range 20 {
			for _, l := range limiters {
				limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), shardlimit.MaxPermits)))
			}
			time.Sleep(20 * time.Millisecond) // so that memory does not answer
		}
	}
}

// The ID is part of what is stored: it must not change, and be hard to collide with.
func TestParticipantIDIsTheHeadOfSHA256(t *testing.T) {
	if id := shardlimit.ParticipantID("abc"); id != "ba7816bf8f01cfea" { // FIPS 180-2, appendix B.1
		t.Error(id)
	}
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

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

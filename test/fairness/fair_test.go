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

// A hog does not take the part of those who want little, whether they call from
// processes of their own or from that of the hog, on one shard or on several.
func TestAHogGetsWhatTheOthersLeave(t *testing.T) {
	for _, shards := range []int{1, 4} {
		for _, where := range []string{"processes", "tenants"} {
			if !extent.Full && (shards == 4) != (where == "tenants") {
				continue // one of each
			}
			t.Run(fmt.Sprint(shards, " ", where), func(t *testing.T) {
				fairly(t, func(t *testing.T, f limittest.Fleet, rough bool) error {
					return hogTrial(t, f, rough, shards, where == "tenants")
				})
			})
		}
	}
}

func hogTrial(t *testing.T, f limittest.Fleet, rough bool, shards int, tenants bool) error {
	limit := shardlimit.Limit{Permits: 400, Per: 500 * time.Millisecond, Shards: shards}
	limiters := f.Group(t, 5, "l", limit)
	if tenants {
		for i := range limiters {
			limiters[i] = limiters[0].As(fmt.Sprint("tenant-", i), 1)
		}
	}
	all := []*demander{{limiter: limiters[0], rate: 8000}}
	for _, l := range limiters[1:] {
		all = append(all, &demander{limiter: l, rate: 80}) // of the 160 each is entitled to
	}
	var record history.Recorder
	contend(t, time.Second, 2*time.Second, &record, all...)
	limittest.KeepsTo(t, limit, record.Ops())
	var little int64
	for _, p := range all[1:] {
		little += p.granted.Load()
	}
	hog := all[0].granted.Load()
	t.Logf("the hog got %d, the others %d of the 640 they wanted", hog, little)
	least, used := int64(520), int64(1400)
	if rough {
		least, used = 320, 0 // half of what they want; first come, first served leaves the others some 40
	}
	if little < least || hog+little < used {
		return fmt.Errorf("the others got %d of the 640 that they wanted, and %d of 1600 permits were used", little,
			hog+little)
	}
	return nil
}

func TestWeightsDivideAContendedLimit(t *testing.T) {
	fairly(t, weightTrial)
}

func weightTrial(t *testing.T, f limittest.Fleet, rough bool) error {
	part := int64(1)
	if rough {
		part = 4 // a slow machine must be able to ask for more than there is
	}
	limit := shardlimit.Limit{Permits: 700 / part, Per: 500 * time.Millisecond, Shards: 1}
	var all []*demander
	for _, weight := range []float64{1, 2, 4} {
		client := f.Client(t, func(c *shardlimit.Config) { c.Weight = weight })
		all = append(all, &demander{limiter: limittest.Limiter(t, client, "l", limit), rate: 4000 / float64(part)})
	}
	var record history.Recorder
	contend(t, time.Second, 2*time.Second, &record, all...)
	limittest.KeepsTo(t, limit, record.Ops())
	var err error
	for i := range all {
		want, got := float64(int64(400)<<i/part), float64(all[i].granted.Load())
		t.Logf("weight %d got %.0f of %.0f", 1<<i, got, want)
		if got < want/4 {
			err = errors.Join(err, fmt.Errorf("weight %d got only %.0f of %.0f", 1<<i, got, want))
		}
		if rough && i > 0 && got < 1.4*float64(all[i-1].granted.Load()) { // first come, first served gives all the same
			err = errors.Join(err, fmt.Errorf("weight %d got %.0f, half of it %d", 1<<i, got, all[i-1].granted.Load()))
		}
		if !rough && math.Abs(got-want) > 0.1*want {
			err = errors.Join(err, fmt.Errorf("weight %d got %.0f, is entitled to %.0f", 1<<i, got, want))
		}
	}
	return err
}

// Two tenants whose callers wait, again and again: how many of them wait says nothing of what they
// want.
func TestWorkersShareByWeight(t *testing.T) {
	fairly(t, workersTrial)
}

func workersTrial(t *testing.T, f limittest.Fleet, rough bool) error {
	const window = 500 * time.Millisecond
	limit := shardlimit.Limit{Permits: 400, Per: window, Shards: 1}
	l := limittest.Limiter(t, f.Client(t), "l", limit)
	tenants := []*shardlimit.Limiter{l.As("light", 1), l.As("heavy", 3)}
	var (
		granted [2]atomic.Int64
		wg      sync.WaitGroup
		record  history.Recorder
	)
	begin := time.Now()
	for i, tenant := range tenants {
		for range 20 {
			wg.Go(func() {
				tally := record.Tally()
				for time.Since(begin) < 10*window {
					// the server's clock knows no fractions, and sleeps end anywhere
					start := time.Since(begin).Truncate(time.Microsecond)
					if err := tenant.Wait(context.Background()); err != nil {
						t.Errorf("a call failed: %v", err)
						return
					}
					end := time.Since(begin).Truncate(time.Microsecond)
					tally.Add(int64(start), int64(end), 1)
					if end >= 6*window {
						granted[i].Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	limittest.KeepsTo(t, limit, record.Ops())
	light, heavy := granted[0].Load(), granted[1].Load()
	t.Logf("from the seventh window on the light one got %d, the heavy one %d", light, heavy)
	if rough && (heavy < 2*light || heavy < limit.Permits) {
		// by the number of those who wait: about as much as the light one
		return fmt.Errorf("the light one got %d, the heavy one %d", light, heavy)
	}
	if !rough && (light < 360 || light > 440 || light+heavy < 1550) {
		return fmt.Errorf("of 1600 the light one got %d, the heavy one %d", light, heavy)
	}
	return nil
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
	l := limittest.Limiter(t, limittest.Standalone(t).Client(t), "l", shardlimit.PerSecond(10))
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
				if _, err := l.AllowUpTo(t.Context(), shardlimit.MaxPermits); err != nil {
					t.Fatal(err)
				}
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

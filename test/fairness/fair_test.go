package fairness

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A hog does not take the part of those who want little, whether they call from
// processes of their own or from that of the hog, on one shard or on several.
func TestAHogGetsWhatTheOthersLeave(t *testing.T) {
	for _, tenants := range []bool{false, true} {
		inBubble(t, func(t *testing.T, f limittest.Fleet) {
			if hog, little := hogTrial(t, f, tenants); little < 520 || hog+little < 1400 {
				t.Errorf("the others got %d of the 640 that they wanted, the hog %d of 1600 permits", little, hog)
			}
		})
	}
}

// On a machine that is slow callers come late and permits go unused, so no share is judged closely.
// It is enough that the others get half of what they want once; without a rule they get some 40.
func TestAHogOnAServer(t *testing.T) {
	for range 6 {
		if _, little := hogTrial(t, limittest.Standalone(t), false); little >= 320 || t.Failed() {
			return
		}
	}
	t.Error("every time the others got less than half of what they wanted")
}

func hogTrial(t *testing.T, f limittest.Fleet, tenants bool) (hog, little int64) {
	limit := shardlimit.Limit{Permits: 400, Per: 500 * time.Millisecond, Shards: 1}
	if tenants {
		limit.Shards = 4
	}
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
	contend(t, limit, time.Second, 2*time.Second, all...)
	for _, p := range all[1:] {
		little += p.granted.Load()
	}
	hog = all[0].granted.Load()
	t.Logf("the hog got %d, the others %d of the 640 they wanted", hog, little)
	return hog, little
}

func TestWeightsDivideAContendedLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 700, Per: 500 * time.Millisecond, Shards: 1}
		var all []*demander
		for _, weight := range []float64{1, 2, 4} {
			client := f.Client(t, func(c *shardlimit.Config) { c.Weight = weight })
			all = append(all, &demander{limiter: limittest.Limiter(t, client, "l", limit), rate: 4000})
		}
		contend(t, limit, time.Second, 2*time.Second, all...)
		for i := range all {
			want, got := float64(int64(400)<<i), float64(all[i].granted.Load())
			if t.Logf("weight %d got %.0f of %.0f", 1<<i, got, want); math.Abs(got-want) > 0.1*want {
				t.Errorf("weight %d got %.0f, is entitled to %.0f", 1<<i, got, want)
			}
		}
	})
}

// Two tenants whose callers wait, again and again: how many of them wait says nothing of what they
// want.
func TestWorkersShareByWeight(t *testing.T) {
	inBubble(t, func(t *testing.T, f limittest.Fleet) {
		const window = 500 * time.Millisecond
		limit := shardlimit.Limit{Permits: 400, Per: window, Shards: 1}
		l := limittest.Limiter(t, f.Client(t), "l", limit)
		d, granted := newDiary(t), [2]atomic.Int64{}
		for i, tenant := range []*shardlimit.Limiter{l.As("light", 1), l.As("heavy", 3)} {
			for range 20 {
				d.goOn(tenant, 1, &granted[i])
			}
		}
		time.Sleep(6 * window)
		light, heavy := granted[0].Load(), granted[1].Load()
		time.Sleep(4 * window)
		light, heavy = granted[0].Load()-light, granted[1].Load()-heavy
		d.end()
		limittest.KeepsTo(t, limit, d.record.Ops())
		if t.Logf("of 1600 the light one got %d, the heavy one %d", light, heavy); light < 360 || light > 440 ||
			light+heavy < 1550 {
			t.Error("these are not their parts")
		}
	})
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

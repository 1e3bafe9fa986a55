package fleet

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestMain(m *testing.M) {
	// A process with the race detector sleeps for a second before it ends: not the workers, of
	// which every test starts some.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	ServeIfWorker()
	m.Run()
}

func start(t *testing.T, processes int) *Fleet {
	t.Helper()
	f, err := Start(processes)
	limittest.Must(t, err)
	t.Cleanup(f.Close)
	return f
}

// crowd is two members with equal rates and one that comes late.
func crowd(t *testing.T, kind Kind) Crowd {
	t.Helper()
	return Crowd{
		Kind: kind, Addrs: []string{servertest.Start(t).Addr()}, Limit: "crowd", Permits: 40, Per: time.Second,
		Shards: 1,
		Members: []Member{
			{Name: "a", Weight: 1, Rate: 400}, {Name: "b", Weight: 1, Rate: 400},
			{Name: "c", Weight: 1, Rate: 200, From: 50 * time.Millisecond},
		},
		Tick: 5 * time.Millisecond, For: 200 * time.Millisecond, Seed: 1, Life: time.Minute,
	}
}

// oneOf has a trial that is over in a moment repeated, because a machine that stands still for that
// long lets nothing happen in it. It is enough that one of six succeeds.
func oneOf(t *testing.T, trial func() error) {
	t.Helper()
	var err error
	for range 6 {
		if err = trial(); err == nil || t.Failed() {
			return
		}
		t.Log(err)
	}
	t.Error("every time: ", err)
}

func TestGather(t *testing.T) {
	for _, kind := range []Kind{Coalesced, FirstCome} {
		oneOf(t, func() error { return gather(t, kind) })
	}
}

func gather(t *testing.T, kind Kind) error {
	c, f := crowd(t, kind), start(t, 2)
	var marks []time.Duration
	g, err := f.Gather(t.Context(), c,
		Mark{0, func() error { marks = append(marks, 0); return nil }},
		Mark{c.For, func() error { marks = append(marks, c.For); return nil }})
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	if !slices.Equal(marks, []time.Duration{0, c.For}) || len(g.Trails) != 3 {
		t.Errorf("%s: marks %v, %d trails", kind, marks, len(g.Trails))
	}
	var granted, wanted int64
	for i, trail := range g.Trails {
		if trail.Index != i {
			t.Errorf("%s: trail %d is that of %d", kind, i, trail.Index)
		}
		for _, take := range trail.Takes {
			granted, wanted = granted+take.Granted, wanted+take.Wanted
			if take.End < take.At || take.Granted > take.Wanted {
				t.Errorf("%s: take %+v", kind, take)
			}
			if at := time.Duration(take.At) * time.Microsecond; i == 2 && at < c.Members[2].From-time.Millisecond {
				t.Errorf("%s: somebody who is not there yet calls at %s", kind, at)
			}
		}
	}
	// 200 calls are due in all, and the limit is 40.
	if wanted > 300 || granted > c.Permits {
		t.Errorf("%s: %d of %d granted, at most %d may be", kind, granted, wanted, c.Permits)
	}
	if wanted+g.Unsent < 120 || granted < 30 || g.Failed != 0 {
		return fmt.Errorf("%s: %d of %d granted, %d never sent, %d failed (%s)", kind, granted, wanted, g.Unsent,
			g.Failed, g.Err)
	}
	return nil
}

// TestWeightsCount: of two who want all there is, the one that weighs three times as much gets
// more.
func TestWeightsCount(t *testing.T) {
	c, f := crowd(t, Coalesced), start(t, 1)
	c.Permits, c.Per, c.For = 100, 500*time.Millisecond, 2*time.Second
	c.Members = []Member{{Name: "light", Weight: 1, Rate: 400}, {Name: "heavy", Weight: 3, Rate: 400}}
	tries := 0
	oneOf(t, func() error {
		tries++
		c.Limit = fmt.Sprint("weights ", tries)
		g, err := f.Gather(t.Context(), c)
		limittest.Must(t, err)
		var got [2]int64
		for i, trail := range g.Trails {
			for _, take := range trail.Takes {
				if take.At > 800_000 { // until somebody has been refused, first come is first served
					got[i] += take.Granted
				}
			}
		}
		if 2*got[1] < 3*got[0] || got[1] < c.Permits {
			return fmt.Errorf("%d and %d", got[0], got[1])
		}
		return nil
	})
}

package shardlimit_test

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/race"
)

var (
	historyCount = flag.Int("histories", 0, "how many histories TestHistories plays; 0: as many as take some seconds")
	historySeed  = flag.Uint64("histories.seed", 1, "the seed of the first of them")
	historyShow  = flag.Int("histories.show", 2, "how many failing histories of a kind are shrunk and printed")
	historyTheme = flag.String("histories.theme", "",
		"what the histories are about: one of "+strings.Join(themes, ", ")+"; all if empty")
	historyKinds = flag.String("histories.kinds", "",
		"which kinds of findings are looked at, with commas between; all if empty")
)

// TestHistories plays random histories of limits and processes in simulated time: see
// histories_draw_test.go for what happens in them, and histories_judge_test.go for what must hold.
func TestHistories(t *testing.T) {
	if os.Getenv(historyVariable) != "" {
		serve(t, os.Stdin, os.Stdout)
		return
	}
	if race.Enabled && *historyCount == 0 {
		// callers read what the steps of a history write, and worlds take turns by simulated time:
		// the detector cannot know
		return
	}
	n := cmp.Or(*historyCount, extent.Some(480))
	total, all := playAll(t, *historySeed, n)
	t.Logf("%s", total)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		seeds := all[kind]
		slices.Sort(seeds)
		t.Errorf("%d histories of %d show what must not be: %s; seeds %v", len(seeds), n, kind,
			seeds[:min(len(seeds), 20)])
		if *historyShow > 0 {
			show(t, kind, seeds[:min(len(seeds), *historyShow)])
		}
	}
}

// playAll plays n histories, as many at once as there are processors, and returns the seeds of
// those that failed by kind.
func playAll(t *testing.T, seed uint64, n int) (total stats, failing map[string][]uint64) {
	const portion = 10
	var next atomic.Uint64
	next.Store(seed)
	end := seed + uint64(n)
	failing = make(map[string][]uint64)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			s := &stage{}
			defer s.close()
			for {
				to := next.Add(portion)
				from := to - portion
				if from >= end {
					return
				}
				r, err := s.play(order{From: from, To: min(to, end), Theme: *historyTheme})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				total.add(r.Stats)
				for _, f := range r.Failed {
					seen := map[string]bool{}
					for _, found := range f.Findings {
						if wanted(found.Kind) && !seen[found.Kind] {
							seen[found.Kind] = true
							failing[found.Kind] = append(failing[found.Kind], f.Seed)
						}
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return total, failing
}

func wanted(kind string) bool {
	return *historyKinds == "" || slices.Contains(strings.Split(*historyKinds, ","), kind)
}

// show shrinks and prints histories.
func show(t *testing.T, kind string, seeds []uint64) {
	s := &stage{}
	defer s.close()
	for _, seed := range seeds {
		p, found, ok := shrink(s, draw(seed, *historyTheme), kind, 30*time.Second)
		if !ok {
			t.Logf("seed %d does not show it again: %s", seed, kind)
			continue
		}
		t.Logf("%s: %s\n%s", found.Kind, found.Text, p)
	}
}

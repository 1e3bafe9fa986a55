package histories

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/race"
)

var (
	historyCount = flag.Int("histories", 0, "how many histories TestHistories plays; 0: as many as take some seconds")
	historySeed  = flag.Uint64("histories.seed", 1, "the seed of the first of them")
	historyShow  = flag.Int("histories.show", 2, "how many failing histories of a kind are shrunk and printed")
	historyTheme = flag.String("histories.theme", "",
		"what the histories are about: one of "+strings.Join(themes, ", ")+"; all if empty")
	historyKeep = flag.String("histories.keep", "",
		"a folder to which those that are shown are written; testdata/histories has them played by every go test")
	historyTwice = flag.Bool("histories.twice", false,
		"play each history twice, by a runtime that leaves nothing to chance: it must go the same way")
)

// TestHistories plays random histories of limits and processes in simulated time: see
// draw_test.go for what happens in them, and judge_test.go for what must hold.
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
	n := cmp.Or(*historyCount, extent.Some(300))
	binary := "" // this one
	if *historyTwice {
		binary = repeatablePlayer(t)
	}
	total, all := playAll(binary, *historySeed, n, *historyTwice)
	t.Logf("%d histories:%s", n, total)
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		seeds := slices.Sorted(slices.Values(all[kind]))
		t.Errorf("%d histories of %d show what must not be: %s; seeds %v", len(seeds), n, kind,
			seeds[:min(len(seeds), 20)])
		show(t, binary, kind, seeds[:min(len(seeds), *historyShow)])
	}
}

// playAll plays n histories, as many at once as there are processors, and returns the seeds of
// those that failed by kind.
func playAll(binary string, seed uint64, n int, twice bool) (total stats, failing map[string][]uint64) {
	const portion = 10
	var next atomic.Uint64
	next.Store(seed)
	end := seed + uint64(n)
	total, failing = stats{}, make(map[string][]uint64)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			s := &stage{binary: binary}
			defer s.close()
			for from := next.Add(portion) - portion; from < end; from = next.Add(portion) - portion {
				r := s.play(order{From: from, To: min(from+portion, end), Theme: *historyTheme, Twice: twice})
				mu.Lock()
				total.add(r.Stats)
				for _, f := range r.Failed {
					for _, found := range f.Findings {
						if seeds := failing[found.Kind]; !slices.Contains(seeds, f.Seed) {
							failing[found.Kind] = append(seeds, f.Seed)
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

// show shrinks and prints histories, and keeps them if that is asked for.
func show(t *testing.T, binary, kind string, seeds []uint64) {
	t.Helper()
	s := &stage{binary: binary}
	defer s.close()
	for _, seed := range seeds {
		p, found := shrink(s, draw(seed, *historyTheme), kind, 30*time.Second)
		if found == nil {
			t.Logf("seed %d does not show it again: %s", seed, kind)
			continue
		}
		t.Logf("%s: %s\n%s", found.Kind, found.Text, p)
		if *historyKeep != "" {
			text, err := json.MarshalIndent(p, "", "\t")
			limittest.Must(t, err)
			name := fmt.Sprintf("%s-%s-%d.json", kind, cmp.Or(*historyTheme, "all"), seed)
			limittest.Must(t, os.WriteFile(filepath.Join(*historyKeep, name), append(text, '\n'), 0o600))
		}
	}
}

// TestKeptHistories plays histories that showed once what must not be, made as short as they show
// it.
func TestKeptHistories(t *testing.T) {
	if race.Enabled {
		return // as in TestHistories
	}
	names, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(names) == 0 {
		t.Fatal(len(names), err)
	}
	s := &stage{}
	defer s.close()
	for _, name := range names {
		text, err := os.ReadFile(name)
		limittest.Must(t, err)
		var p plan
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(name, err)
		}
		for _, f := range s.play(order{Plan: &p}).Failed {
			t.Errorf("%s: %+v\n%s", name, f.Findings, &p)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

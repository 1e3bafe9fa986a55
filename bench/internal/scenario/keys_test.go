package scenario

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestDraws: the same seed draws the same keys, callers draw differently, and ranks are as probable
// as they are meant to be.
func TestDraws(t *testing.T) {
	const keys, calls, callers = 1000, 200_000, 4
	for name, zipf := range map[string]bool{"uniform": false, "zipf": true} {
		t.Run(name, func(t *testing.T) {
			draw := func(seed uint64, caller int) []int {
				next, drawn := newDraws(keys, zipf, seed).of(caller, callers), make([]int, calls)
				for i := range drawn {
					drawn[i] = next()
				}
				return drawn
			}
			first := draw(1, 0)
			if !slices.Equal(first, draw(1, 0)) {
				t.Error("the same seed drew other keys")
			}
			if slices.Equal(first, draw(2, 0)) || slices.Equal(first, draw(1, 1)) {
				t.Error("another seed or caller drew the same keys")
			}
			var counts [keys]float64
			for _, key := range first {
				counts[key]++
			}
			sum := 0.0
			for rank := range keys {
				sum += weight(rank, zipf)
			}
			for _, rank := range []int{0, 1, 9, keys - 1} {
				want := calls * weight(rank, zipf) / sum
				if math.Abs(counts[rank]-want) > 6*math.Sqrt(want)+1 {
					t.Errorf("key %d was drawn %v times, want about %.0f", rank, counts[rank], want)
				}
			}
		})
	}
}

func weight(rank int, zipf bool) float64 {
	if !zipf {
		return 1
	}
	return math.Pow(float64(rank+1), -zipfPower)
}

func TestEveryKeyIsCalledOnce(t *testing.T) {
	names := keyNames(3*keysFillers + 5)
	var mu sync.Mutex
	calls := make(map[string]int)
	err := callOnce(t.Context(), func(_ context.Context, key string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		calls[key]++
		return true, nil
	}, names, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if calls[name] != 1 {
			t.Errorf("%q was called %d times", name, calls[name])
		}
	}
	if len(calls) != len(names) {
		t.Errorf("%d keys were called, there are %d", len(calls), len(names))
	}
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that it is not tried again
	err = callOnce(ctx, func(context.Context, string) (bool, error) { return false, boom }, names, true)
	if !errors.Is(err, boom) {
		t.Errorf("err %v, want that of the calls", err)
	}
	err = callOnce(ctx, func(context.Context, string) (bool, error) { return true, nil }, names, false)
	if err == nil {
		t.Error("calls that should have been denied were allowed, without an error")
	}
}

func TestKeysCases(t *testing.T) {
	picked, err := keysCases(Env{Cases: []string{"50k zipf", "1"}, Goroutines: []int{7}})
	if err != nil || len(picked) != 2 || picked[0].name != "1" || picked[1].name != "50k zipf" ||
		!slices.Equal(picked[0].callers, []int{7}) || !picked[1].zipf {
		t.Errorf("picked %+v, err %v", picked, err)
	}
	if _, err := keysCases(Env{Cases: []string{"1", "nobody"}}); err == nil {
		t.Error("an unknown case is no error")
	}
}

// TestKeysAreCompared: our own script counts as no rival that could be the best.
func TestKeysAreCompared(t *testing.T) {
	run := keysRun{rivals: rival.All(), found: newFindings()}
	run.compare(3, map[string]float64{"shardlimit": 80, "script": 40, "redis_rate": 10, "ulule": 20})
	var result report.Result
	run.found.addTo(&result)
	for _, want := range []struct {
		series, metric string
		value          float64
	}{
		{"shardlimit", "ratio", 8}, {"shardlimit", "best", 4}, {"script", "best", 2}, {"ulule", "ratio", 2},
		{"redis_rate", "ratio", 1}, {"redis_rate", "best", 0.5},
	} {
		i := slices.IndexFunc(result.Points, func(p report.Point) bool {
			return p.Series == want.series && p.Metric == want.metric && p.X == 3
		})
		if i < 0 || result.Points[i].Stat.Median != want.value {
			t.Errorf("%s of %s is not %v in %+v", want.metric, want.series, want.value, result.Points)
		}
	}
	if len(result.Points) != 8 {
		t.Errorf("%d points, want two of each of the four that were measured", len(result.Points))
	}
}

// TestARivalThatDoesNotAnswerIsRemarked: it costs the others nothing.
func TestARivalThatDoesNotAnswerIsRemarked(t *testing.T) {
	servertest.Require(t)
	var result report.Result
	run := &keysRun{env: Env{Redis: "redis-server"}, result: &result, found: newFindings(), span: time.Millisecond,
		names: keyNames(1)}
	s, err := run.env.start(t.Context(), &result)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run.server = s
	turn := keysTurn{keysRun: run, rival: rival.Rival{Name: "nobody"}, draws: newDraws(1, false, 0)}
	rates := make(map[string]float64)
	never := func(context.Context, string) (bool, error) { return false, errors.New("boom") }
	if err := turn.measure(t.Context(), never, 0, 1, rates); err != nil {
		t.Error(err)
	}
	if len(result.Remarks) != 1 || !strings.Contains(result.Remarks[0], "nobody") || len(rates) != 0 {
		t.Errorf("remarks %q, rates %v; want one remark and no rate", result.Remarks, rates)
	}
}

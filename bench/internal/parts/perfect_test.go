package parts

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
)

// TestPerfect checks each window by itself: everybody has exactly what it is entitled to
// there, no bin has more than was wanted in it, and no window more than the limit.
func TestPerfect(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n, windows := 1+random.IntN(6), 1+random.IntN(4)
		weights := make([]float64, n)
		for i := range weights {
			weights[i] = float64(int(1) << random.IntN(3))
		}
		r := NewRecord(weights, 1+random.Int64N(100), 5, windows)
		for i := range n {
			for bin := range 5 * windows {
				fill(r, i, bin, bin+1, random.Int64N(20)*random.Int64N(2), random.Int64N(20))
			}
		}
		before := r.Judge()
		perfect := r.Perfect()
		if r.Judge() != before {
			t.Fatal("the record it was made of is another one now")
		}
		for from := 0; from < 5*windows; from += 5 {
			entitled, got := perfect.Between(from, from+5)
			if total(got) > r.Permits+1e-6 {
				t.Fatalf("%v permits of %v", total(got), r.Permits)
			}
			for i := range entitled {
				if math.Abs(entitled[i]-got[i]) > 1e-6 {
					t.Fatalf("window %d: %v got %v", from/5, entitled, got)
				}
			}
		}
		for i := range n {
			for bin, got := range perfect.Got[i] {
				if got > r.Wanted[i][bin]+1e-6 {
					t.Fatalf("%v of %v wanted in a bin", got, r.Wanted[i][bin])
				}
			}
		}
	}
}

// TestPerfectWindowsAreNotPerfectBlocks: what one wants in a window in which the other
// wants everything too, and not in the next, is worth more in a block of both.
func TestPerfectWindowsAreNotPerfectBlocks(t *testing.T) {
	r := NewRecord([]float64{1, 1}, 100, 10, 2)
	fill(r, 0, 0, 20, 20, 0)
	fill(r, 1, 0, 10, 9, 0)
	v := r.Perfect().Judge()
	// 50 in the first window to both, 100 in the second to one; of the block 90 and 110 are due.
	if !near(v.Least, 50.0/90) || !near(v.Most, 150.0/110) || !near(v.Used, 1) {
		t.Errorf("verdict %+v", v)
	}
	single := NewRecord([]float64{1, 1}, 100, 10, 1)
	fill(single, 0, 0, 10, 20, 0)
	fill(single, 1, 0, 10, 9, 0)
	if v := single.Perfect().Judge(); !ones(v) {
		t.Errorf("a single window: verdict %+v, want ones", v)
	}
}

// TestPerfectOfRandomDemand tells how close to 1 the least part comes if each window is
// divided perfectly: 50 participants want 1.2 times 40 or 400 permits a window at random, for
// ten windows. Steady demand is served exactly.
func TestPerfectOfRandomDemand(t *testing.T) {
	const n, windows = 50, 10
	for _, c := range []struct {
		each        int64
		trials      int
		mean, worst float64
	}{{40, 100, 0.971, 0.942}, {400, 10, 1, 1}} {
		rate := 1.2 * float64(c.each)
		var leasts []float64
		for trial := range uint64(c.trials) {
			random := demand(c.each*n, n, windows,
				func(i int) load.Arrivals { return load.Poisson(rate, 1, trial<<8+uint64(i)) })
			leasts = append(leasts, random.Perfect().Judge().Least)
		}
		mean, worst := total(leasts)/float64(c.trials), slices.Min(leasts)
		t.Logf("%d permits each: least part %.3f on average, %.3f at worst of %d trials", c.each, mean, worst, c.trials)
		if math.Abs(mean-c.mean) > 0.001 || math.Abs(worst-c.worst) > 0.001 {
			t.Errorf("%d permits each: least part %v on average, %v at worst; want %v, %v", c.each, mean, worst, c.mean,
				c.worst)
		}
		steady := demand(c.each*n, n, windows, func(int) load.Arrivals { return load.Even(2.5*rate, 1) })
		if v := steady.Perfect().Judge(); !ones(v) {
			t.Errorf("%d permits each, steady demand: verdict %+v, want ones", c.each, v)
		}
	}
}

// ones says whether all had exactly what they were entitled to, up to rounding.
func ones(v Verdict) bool {
	return math.Abs(v.Least-1)+math.Abs(v.Most-1)+math.Abs(v.Used-1) < 1e-6
}

// demand is a record of calls that nobody answered.
func demand(permits int64, n, windows int, arrivals func(i int) load.Arrivals) *Record {
	r := NewRecord(slices.Repeat([]float64{1}, n), permits, 20, windows)
	end := time.Duration(windows) * time.Second
	for i := range n {
		next := arrivals(i)
		for at := next().At; at < end; at = next().At {
			r.Add(i, time.Second, at, at, 1, 0)
		}
	}
	return r
}

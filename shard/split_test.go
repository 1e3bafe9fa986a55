package shard_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

func ExampleSplit() {
	fmt.Println(shard.Split(11, 4))
	// Output: [3 3 3 2]
}

func ExampleAuto() {
	fmt.Println(shard.Auto(10_000, 3, 16), shard.Auto(1000, 3, 16), shard.Auto(1000, 3, 100))
	// Output: 3 2 1
}

func ExampleFit() {
	fmt.Println(shard.Fit(5, 8, 16), shard.Fit(500, 8, 16))
	// Output: 5 8
}

func TestFit(t *testing.T) {
	for _, c := range []struct {
		permits         int64
		want, max, fits int
	}{
		{1, 8, 8, 1}, {2, 8, 8, 2}, {7, 8, 8, 7}, {8, 8, 8, 8}, {9999991, 8, 8, 8}, {9999991, 8, 3, 3},
		{100, 0, 8, 1}, {100, -5, 8, 1}, {0, 8, 8, 1}, {-1, 8, 8, 1}, {math.MinInt64, 8, 8, 1},
		{math.MaxInt64, math.MaxInt, 5, 5}, {100, 4, 0, 1},
	} {
		if got := shard.Fit(c.permits, c.want, c.max); got != c.fits {
			t.Errorf("Fit(%d, %d, %d) = %d, want %d", c.permits, c.want, c.max, got, c.fits)
		}
	}
}

func TestAuto(t *testing.T) {
	for _, c := range []struct {
		permits      int64
		nodes        int
		participants int64
		want         int
	}{
		{1, 3, 1, 1}, {49, 3, 1, 1}, {50, 3, 1, 2}, {74, 3, 1, 2}, {75, 3, 1, 3}, {1e12, 3, 1, 3}, {1e12, 1, 1, 1},
		{1000, 0, 1, 1}, {100, 16, 1, 4}, {0, 4, 1, 1},
		{799, 3, 16, 1}, {800, 3, 16, 2}, {1199, 3, 16, 2}, {1200, 3, 16, 3}, {1e12, 3, 1000, 3},
		{1e12, 3, math.MaxInt64, 1},
		{75, 3, 0, 3}, {75, 3, -1, 3}, {math.MaxInt64, 3, 1, 3},
	} {
		if got := shard.Auto(c.permits, c.nodes, c.participants); got != c.want {
			t.Errorf("Auto(%d, %d, %d) = %d, want %d", c.permits, c.nodes, c.participants, got, c.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, permits := range []int64{0, 1, 2, 7, 11, 9999991, 1e12, math.MaxInt64, -3} {
		for _, n := range []int{0, 1, 2, 3, 7, 16, 1000} {
			f.Add(permits, n)
		}
	}
	f.Fuzz(func(t *testing.T, permits int64, n int) {
		n %= shard.Slots + 1
		shares := shard.Split(permits, n)
		if len(shares) != max(n, 0) {
			t.Fatalf("%d shares, want %d", len(shares), n)
		}
		if n <= 0 {
			return
		}
		permits = max(permits, 0)
		var sum, most int64
		least := int64(math.MaxInt64)
		for i, s := range shares {
			sum, most, least = sum+s, max(most, s), min(least, s)
			// Spread: the extra ones of every beginning are about its part of all of them.
			extra, part := sum-int64(i+1)*(permits/int64(n)), float64(i+1)*float64(permits%int64(n))/float64(n)
			if math.Abs(float64(extra)-part) > 1+math.Log2(float64(n)) {
				t.Fatalf("the first %d of %d shares of %d have %d extra, their part is %.1f", i+1, n, permits, extra,
					part)
			}
		}
		if sum != permits || most-least > 1 || (permits >= int64(n) && least < 1) {
			t.Fatalf("Split(%d, %d): sum %d, from %d to %d", permits, n, sum, least, most)
		}
	})
}

func TestSplitSpreads(t *testing.T) {
	if got := shard.Split(14, 8); !slices.Equal(got, []int64{2, 2, 2, 1, 2, 2, 2, 1}) {
		t.Errorf("Split(14, 8) = %v", got)
	}
}

package scenario

import (
	"testing"

	"github.com/shardlimit/shardlimit/script"
)

// The pictures must show what the algorithms promise, and what slips through where something does.
func TestShapesKeepTheirBounds(t *testing.T) {
	for _, c := range []struct {
		algorithm script.Algorithm
		interval  int64
		from, to  int
	}{
		{script.AlgorithmSlidingLog, shapeWindow, 100, 100},
		{script.AlgorithmSlidingCounter, shapeWindow, 100, 100},
		{script.AlgorithmFixedWindow, shapeWindow, 150, 200},
		{script.AlgorithmTokenBucket, shapeWindow, 150, 200},
		{script.AlgorithmTokenBucket, 200_000, 115, 120},
		{script.AlgorithmLeakyBucket, shapeWindow, 100, 101},
		{script.AlgorithmLeakyBucket, 200_000, 20, 21},
	} {
		acts, err := shapeOf(c.algorithm)
		if err != nil {
			t.Fatal(err)
		}
		if most := mostWithin(acts, c.interval); most < c.from || most > c.to {
			t.Errorf("%v: %d permits within %d us, want %d to %d", c.algorithm, most, c.interval, c.from, c.to)
		}
	}
}

func TestMostWithin(t *testing.T) {
	acts := []int64{0, 5, 10, 10, 14, 30}
	for interval, want := range map[int64]int{1: 2, 4: 2, 5: 3, 6: 3, 10: 4, 11: 4, 15: 5, 100: 6} {
		if got := mostWithin(acts, interval); got != want {
			t.Errorf("%d acts within %d, want %d", got, interval, want)
		}
	}
}

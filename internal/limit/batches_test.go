package limit

import "testing"

func TestBatchesThatFitTheShards(t *testing.T) {
	for _, c := range []struct {
		shares       []int64
		batch        int64
		unused, fits int64
	}{
		{[]int64{125, 125, 125, 125}, 50, 20, 41},
		{[]int64{125, 125, 125, 125}, 41, 1, 31},
		{[]int64{150, 150}, 50, 0, 37},
		{[]int64{7, 6}, 4, 38, 3},
		{[]int64{7, 6}, 7, 0, 7}, // from both
		{[]int64{1, 1}, 1, 0, 1},
		{[]int64{0, 0}, 2, 0, 2},
	} {
		if unused, fits := fittingBatch(c.shares, c.batch); unused != c.unused || fits != c.fits {
			t.Errorf("%d of %d: %d %% unused, %d fits; want %d, %d", c.batch, c.shares, unused, fits, c.unused, c.fits)
		}
	}
}

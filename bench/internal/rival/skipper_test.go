package rival

import "testing"

func TestLargestDivisor(t *testing.T) {
	for _, test := range []struct{ n, want int64 }{
		{1, 1}, {11, 11}, {16, 16}, {17, 1}, {100, 10}, {480, 16}, {1600, 16}, {34, 2}, {5_000_000, 16}, {0, 1},
		{-4, 1},
	} {
		if got := largestDivisor(test.n, maxParts); got != test.want {
			t.Errorf("largestDivisor(%d) = %d, want %d", test.n, got, test.want)
		}
	}
}

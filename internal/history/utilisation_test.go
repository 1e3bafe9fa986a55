package history

import (
	"math"
	"slices"
	"testing"
)

func TestPerWindow(t *testing.T) {
	ops := []Op{
		{0, 9, 100},             // ends before
		{0, 10, 1}, {15, 19, 2}, // first window
		{19, 20, 4},                             // second: counted where it ends
		{39, 39, 8}, {40, 44, 200}, {60, 61, 9}, // third; after the last
	}
	if got, want := PerWindow(10, 10, 44, ops), []int64{3, 4, 8}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := PerWindow(10, 10, 40, ops); len(got) != 3 {
		t.Errorf("three whole windows give %v", got)
	}
	for _, to := range []int64{0, 10, 19} {
		if got := PerWindow(10, 10, to, ops); len(got) != 0 {
			t.Errorf("no whole window up to %d, got %v", to, got)
		}
	}
}

func TestUtilisation(t *testing.T) {
	for _, test := range []struct {
		limit  int64
		counts []int64
		want   float64
	}{
		{10, []int64{10, 5}, 0.75},
		{10, []int64{20, 0}, 1},
		{10, nil, 0},
		{0, []int64{1}, 0},
		{math.MaxInt64, []int64{math.MaxInt64, math.MaxInt64}, 1},
	} {
		if got := Utilisation(test.limit, test.counts); got != test.want {
			t.Errorf("limit %d, %v: %v, want %v", test.limit, test.counts, got, test.want)
		}
	}
}

func TestSpan(t *testing.T) {
	if first, last := Span(nil); first != 0 || last != 0 {
		t.Errorf("of nothing: %d to %d", first, last)
	}
	if first, last := Span([]Op{{5, 30, 1}, {4, 6, 1}, {7, 8, 1}}); first != 4 || last != 30 {
		t.Errorf("%d to %d, want 4 to 30", first, last)
	}
}

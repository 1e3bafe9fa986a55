package stat

import (
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	tests := []struct {
		rounds           []float64
		median, min, max float64
	}{
		{nil, 0, 0, 0},
		{[]float64{7}, 7, 7, 7},
		{[]float64{9, 1, 2}, 2, 1, 9},
		{[]float64{4, 1, 2, 9}, 3, 1, 9},
	}
	for _, tt := range tests {
		before := slices.Clone(tt.rounds)
		got := Of(tt.rounds...)
		if got.Median != tt.median || got.Min != tt.min || got.Max != tt.max {
			t.Errorf("Of(%v) = %+v, want median %v, min %v, max %v", tt.rounds, got, tt.median, tt.min, tt.max)
		}
		if !slices.Equal(got.Rounds, before) {
			t.Errorf("Of(%v) keeps rounds %v, want their order", before, got.Rounds)
		}
	}
}

func TestSpread(t *testing.T) {
	if got := Of(8, 10, 13).Spread(); got != 0.5 {
		t.Errorf("spread = %v, want 0.5", got)
	}
	if got := Of(0, 0).Spread(); got != 0 {
		t.Errorf("spread of zeros = %v, want 0", got)
	}
}

func TestQuantile(t *testing.T) {
	sorted := []int64{10, 20, 30, 40, 50}
	for q, want := range map[float64]float64{0: 10, 0.25: 20, 0.5: 30, 0.9: 46, 1: 50} {
		if got := Quantile(sorted, q); got != want {
			t.Errorf("Quantile(%v) = %v, want %v", q, got, want)
		}
	}
}

package parts

import (
	"math"
	"slices"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) < 0.01*max(1, math.Abs(b)) }

func TestEntitled(t *testing.T) {
	for _, c := range []struct {
		weights, demands []float64
		capacity         float64
		want             []float64
	}{
		{[]float64{1, 1, 1}, []float64{1000, 50, 10}, 120, []float64{60, 50, 10}},
		{[]float64{1, 2, 4}, []float64{100, 100, 100}, 70, []float64{10, 20, 40}},
		{[]float64{4, 1}, []float64{10, 100}, 70, []float64{10, 60}},
		{[]float64{1, 1}, []float64{10, 20}, 70, []float64{10, 20}},
		{[]float64{1, 1}, []float64{0, 20}, 10, []float64{0, 10}},
	} {
		got := Entitled(c.weights, c.demands, c.capacity)
		if !slices.EqualFunc(got, c.want, near) {
			t.Errorf("Entitled(%v, %v, %v) = %v, want %v", c.weights, c.demands, c.capacity, got, c.want)
		}
	}
}

// fill notes that participant i asks for and gets so many permits in every bin of
// [from, to).
func fill(r *Record, i, from, to int, wanted, got int64) {
	const window = time.Second
	for bin := from; bin < to; bin++ {
		at := time.Duration(bin) * window / time.Duration(r.PerWindow)
		r.Add(i, window, at, at, wanted, got)
	}
}

func TestLeast(t *testing.T) {
	r := NewRecord([]float64{1, 1, 1}, 100, 10, 4)
	fill(r, 0, 0, 40, 50, 8) // entitled to 4 a bin
	fill(r, 1, 0, 40, 4, 2)
	fill(r, 2, 0, 40, 2, 2) // entitled to 2
	if least := r.Least(); !near(least, 0.5) {
		t.Errorf("%v, want 0.5", least)
	}
	r.Add(1, time.Second, -time.Millisecond, 4*time.Second, 1000, 1000) // outside
	if least := r.Least(); !near(least, 0.5) {
		t.Error("what lies outside of the record counts")
	}
}

// TestLeastTakesWindowsTogether: what is asked for at the end of a window may be granted in the
// next one. The course does not.
func TestLeastTakesWindowsTogether(t *testing.T) {
	r := NewRecord([]float64{1, 1}, 100, 10, 4) // the second one is never there
	for _, from := range []int{0, 20} {
		fill(r, 0, from, from+10, 20, 10)
		fill(r, 0, from+10, from+20, 0, 10)
	}
	if least := r.Least(); least != 1 {
		t.Errorf("%v, want 1", least)
	}
	if course := r.Course(0, 10); !slices.Equal(course, []float64{1, 0, 1, 0}) {
		t.Errorf("course %v", course)
	}
}

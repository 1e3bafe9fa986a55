package parts

import (
	"math"
	"math/rand/v2"
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

// TestEntitledIsMaxMin checks what makes a division max-min: nobody has more than
// it wants, nothing is left while somebody wants it, and whoever has less than it
// wants has as much for its weight as anybody.
func TestEntitledIsMaxMin(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(8)
		weights, demands := make([]float64, n), make([]float64, n)
		for i := range weights {
			weights[i], demands[i] = 1+random.Float64()*5, random.Float64()*100*float64(random.IntN(2))
		}
		capacity := random.Float64() * 200
		part := Entitled(weights, demands, capacity)
		if !near(total(part), min(capacity, total(demands))) {
			t.Fatalf("%v of %v is given away, %v wanted", total(part), capacity, total(demands))
		}
		for i := range part {
			if part[i] > demands[i]+0.002 {
				t.Fatalf("%v of %v wanted", part[i], demands[i])
			}
			for k := range part {
				if part[i] < demands[i]-0.002 && part[k]/weights[k] > 1.002*part[i]/weights[i]+0.01 {
					t.Fatalf("%d lacks %v while %d has more for its weight", i, demands[i]-part[i], k)
				}
			}
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

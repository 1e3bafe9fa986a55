package history

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oracle is Busiest by the definition alone: it tries every window that could
// matter, and all calls in each. A set of calls in a window stays the same
// until the window's start passes a start, or its end an end, so it is enough
// to try windows that begin at, or 1 ns to either side of, such points.
func oracle(window time.Duration, ops []Op) int64 {
	var most int64
	for _, op := range ops {
		for _, point := range []int64{op.Start, op.End - int64(window)} {
			for a := point - 1; a <= point+1; a++ {
				var sum int64
				for _, o := range ops {
					if o.Start >= a && o.End-a < int64(window) {
						sum += o.Permits
					}
				}
				most = max(most, sum)
			}
		}
	}
	return most
}

func TestBusiest(t *testing.T) {
	const w = 10
	for _, test := range []struct {
		name  string
		ops   []Op
		start int64
		most  int64
	}{
		{"nothing", nil, 0, 0},
		{"one call", []Op{{5, 6, 3}}, 5, 3},
		{"an instant", []Op{{5, 5, 3}}, 5, 3},
		{"two inside", []Op{{0, 1, 1}, {8, 9, 1}}, 0, 2},
		{"the second ends with the window: outside", []Op{{0, 1, 1}, {9, 10, 1}}, 0, 1},
		{"apart by a window", []Op{{0, 0, 1}, {10, 10, 1}}, 0, 1},
		{"apart by just less", []Op{{0, 0, 1}, {9, 9, 1}}, 0, 2},
		{"too long by nothing", []Op{{0, 10, 5}}, 0, 0},
		{"just short enough", []Op{{0, 9, 5}}, 0, 5},
		{"a long call over short ones", []Op{{0, 100, 9}, {50, 51, 1}, {52, 53, 1}}, 50, 2},
		{"straddling calls do not count", []Op{{0, 5, 4}, {4, 12, 4}, {11, 14, 4}}, 0, 4},
		{"equal starts", []Op{{3, 4, 1}, {3, 8, 2}, {3, 12, 4}}, 3, 7},
		{"the earliest of equals", []Op{{100, 101, 2}, {0, 1, 2}}, 0, 2},
		{"late is late", []Op{{math.MaxInt64 - 5, math.MaxInt64, 2}, {math.MaxInt64 - 20, math.MaxInt64 - 19, 1}},
			math.MaxInt64 - 5, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			given := slices.Clone(test.ops)
			got := Busiest(w, test.ops)
			want := Window{Start: test.start, Width: w, Permits: test.most}
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
			if !slices.Equal(given, test.ops) {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestCheck(t *testing.T) {
	ops := []Op{{0, 1, 3}, {2, 3, 4}, {50, 51, 6}}
	for _, test := range []struct {
		limit int64
		ok    bool
	}{{6, false}, {7, true}, {8, true}} {
		worst, ok := Check(10, test.limit, ops)
		if ok != test.ok || worst != (Window{0, 10, 7}) {
			t.Errorf("limit %d: %v, %v", test.limit, worst, ok)
		}
	}
	if got := (Window{int64(time.Second), time.Minute, 7}).String(); got != "7 permits in the 1m0s from 1s on" {
		t.Error(got)
	}
}

// opsGen draws histories crowded enough that ties and exact fits are common.
func opsGen() *rapid.Generator[[]Op] {
	op := rapid.Custom(func(t *rapid.T) Op {
		start := rapid.Int64Range(0, 60).Draw(t, "start")
		return Op{start, start + rapid.Int64Range(0, 14).Draw(t, "length"), rapid.Int64Range(0, 5).Draw(t, "permits")}
	})
	return rapid.SliceOfN(op, 0, 30)
}

func TestBusiestIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := opsGen().Draw(t, "ops")
		window := time.Duration(rapid.Int64Range(1, 20).Draw(t, "window"))
		got := Busiest(window, ops)
		if want := oracle(window, ops); got.Permits != want {
			t.Fatalf("got %v, the oracle says %d", got, want)
		}
		// The window named does hold what it is said to hold.
		var held int64
		for _, op := range ops {
			if op.Start >= got.Start && op.End < got.Start+int64(window) {
				held += op.Permits
			}
		}
		if held != got.Permits {
			t.Fatalf("%v holds %d", got, held)
		}
	})
}

// TestNoFalseAlarm runs a limiter that is right, and lets callers see each grant
// as late or as early as they can: no history of it may be a violation.
func TestNoFalseAlarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Int64Range(1, 40).Draw(t, "window")
		limit := rapid.Int64Range(1, 6).Draw(t, "limit")
		var at []int64 // instant of each permit granted
		var ops []Op
		now := int64(100)
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			now += rapid.Int64Range(0, 8).Draw(t, "pause")
			var used int64
			for _, granted := range at {
				if now < granted+window {
					used++
				}
			}
			if used == limit {
				continue
			}
			at = append(at, now)
			ops = append(ops,
				Op{now - rapid.Int64Range(0, 50).Draw(t, "before"), now + rapid.Int64Range(0, 50).Draw(t, "after"), 1})
		}
		if worst, ok := Check(time.Duration(window), limit, ops); !ok {
			t.Fatalf("false alarm: %v, limit %d", worst, limit)
		}
	})
}

func TestImpossibleHistoriesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"window 0":          func() { Busiest(0, nil) },
		"end before start":  func() { Busiest(1, []Op{{2, 1, 1}}) },
		"negative start":    func() { Busiest(1, []Op{{-1, 1, 1}}) },
		"negative permits":  func() { Busiest(1, []Op{{1, 1, -1}}) },
		"too many permits":  func() { Total([]Op{{1, 1, math.MaxInt64}, {1, 1, 1}}) },
		"recorded badly":    func() { new(Recorder).Tally().Add(2, 1, 1) },
		"PerWindow window":  func() { PerWindow(0, 0, 1, nil) },
		"PerWindow from":    func() { PerWindow(1, -1, 1, nil) },
		"too many windows":  func() { PerWindow(1, 0, math.MaxInt64, nil) },
		"PerWindow bad ops": func() { PerWindow(1, 0, 1, []Op{{2, 1, 1}}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestCheckByAllowsWhatTheBoundSays(t *testing.T) {
	ops := []Op{{0, 1, 3}, {10, 11, 3}, {100, 101, 3}}
	bound := func(start int64) int64 { return max(6-start/20, 2) } // more is allowed early
	if worst, excess := CheckBy(20, bound, ops); excess != 1 || worst.Start != 100 || worst.Permits != 3 {
		t.Errorf("%v, %d more than allowed", worst, excess)
	}
}

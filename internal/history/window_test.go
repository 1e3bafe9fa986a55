package history

import (
	"cmp"
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

// opsGen draws histories crowded enough that ties and exact fits are common, early or as late as
// can be.
func opsGen() *rapid.Generator[[]Op] {
	return rapid.Custom(func(t *rapid.T) []Op {
		from := rapid.SampledFrom([]int64{0, math.MaxInt64 - 75}).Draw(t, "from")
		op := rapid.Custom(func(t *rapid.T) Op {
			start := from + rapid.Int64Range(0, 60).Draw(t, "start")
			end := start + rapid.Int64Range(0, 14).Draw(t, "length")
			return Op{start, end, rapid.Int64Range(0, 5).Draw(t, "permits")}
		})
		return rapid.SliceOfN(op, 0, 30).Draw(t, "ops")
	})
}

// The window named holds the most permits, and is the first to hold so many of those that begin
// with a call that fits. It is a violation of a limit of one permit less.
func TestBusiestIsTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := opsGen().Draw(t, "ops")
		window := time.Duration(rapid.Int64Range(1, 20).Draw(t, "window"))
		given, want := slices.Clone(ops), Window{Width: window}
		got := Busiest(window, ops)
		if !slices.Equal(given, ops) {
			t.Fatal("the argument was changed")
		}
		slices.SortFunc(given, func(a, b Op) int { return cmp.Compare(a.Start, b.Start) })
		for _, op := range given {
			var held int64
			for _, o := range given {
				if o.Start >= op.Start && o.End-op.Start < int64(window) {
					held += o.Permits
				}
			}
			if op.End-op.Start < int64(window) && held > want.Permits {
				want.Start, want.Permits = op.Start, held
			}
		}
		if most := oracle(window, ops); got != want || got.Permits != most {
			t.Fatalf("got %v, want %v; the oracle says %d", got, want, most)
		}
		_, kept := Check(window, got.Permits, ops)
		if _, ok := Check(window, got.Permits-1, ops); ok || !kept {
			t.Fatalf("%v is no violation, or one of just as many", got)
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
	if got := (Window{int64(time.Second), time.Minute, 7}).String(); got != "7 permits in the 1m0s from 1s on" {
		t.Error(got)
	}
}

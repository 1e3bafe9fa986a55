package history

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCheckByAgreesWithCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := opsGen().Draw(t, "ops")
		width, limit := time.Duration(rapid.Int64Range(1, 20).Draw(t, "window")), rapid.Int64Range(0, 50).Draw(t,
			"limit")
		worst, ok := Check(width, limit, ops)
		_, excess := CheckBy(width, func(int64) (int64, bool) { return limit, true }, ops)
		if want := max(worst.Permits-limit, 0); excess != want || ok != (excess == 0) {
			t.Fatalf("excess %d, want %d", excess, want)
		}
	})
}

func TestCheckByAllowsWhatTheBoundSays(t *testing.T) {
	ops := []Op{{0, 1, 3}, {10, 11, 3}, {100, 101, 3}, {200, 201, 9}}
	bound := func(start int64) (int64, bool) { // more is allowed early, and nothing promised late
		if start < 50 {
			return 6, true
		}
		return 2, start < 150
	}
	if worst, excess := CheckBy(20, bound, ops); excess != 1 || worst.Start != 100 || worst.Permits != 3 {
		t.Errorf("%v, %d more than allowed", worst, excess)
	}
}

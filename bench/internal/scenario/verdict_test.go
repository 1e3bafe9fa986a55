package scenario

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

func TestJudge(t *testing.T) {
	op := func(at, permits int64) history.Op {
		return history.Op{Start: 100 + at, End: 100 + at, Permits: permits}
	}
	// The first window of 10 is left out of the use, not of the excess.
	ops := []history.Op{op(0, 9), op(9, 3), op(10, 4), op(25, 2), op(30, 50)}
	got := judge(10, 8, 2, ops)
	if want := (verdict{most: 52.0 / 8, mean: 6.0 / 16, least: 2.0 / 8}); got != want {
		t.Errorf("judged %+v, want %+v", got, want)
	}
	if got := judge(10, 8, 1, ops[:3]); got.most != 12.0/8 || got.least != 0.5 {
		t.Errorf("judged %+v, want 12/8 in the busiest window and 4/8 at least", got)
	}
	if got := judge(10, 8, 2, nil); got != (verdict{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestIdeal(t *testing.T) {
	arrivals := []time.Duration{0, 1, 2, 9, 10, 10, 11, 19, 20}
	var got []time.Duration
	for _, op := range ideal(10, 2, arrivals) {
		got = append(got, time.Duration(op.End))
	}
	want := []time.Duration{0, 1, 10, 11, 20}
	if len(got) != len(want) {
		t.Fatalf("admitted at %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("admitted at %v, want %v", got, want)
		}
	}
	if _, ok := history.Check(10, 2, ideal(10, 2, arrivals)); !ok {
		t.Error("the ideal breaks the limit")
	}
}

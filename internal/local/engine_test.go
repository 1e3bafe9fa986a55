package local_test

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/script"
)

func limitOf(permits, burst int64, a script.Algorithm) local.Limit {
	return local.Limit{Permits: permits, Window: script.MaxWindow, Algorithm: a, Burst: burst,
		Memory: script.MaxWindow}
}

// A limit that no log can enforce is a denial, whatever is asked, and not the end of the process.
// The limit before it stays what is booked and charged.
func TestALimitThatCannotBeEnforcedIsDenied(t *testing.T) {
	impossible := limitOf(1, 13, script.AlgorithmTokenBucket) // it takes thirteen windows to fill
	denies := func(t *testing.T, e *local.Engine) {
		t.Helper()
		e.Note(impossible, 1)
		for _, upTo := range []bool{false, true} {
			if g := e.Take(impossible, 1, upTo); g.Granted != 0 || g.Retry >= 0 {
				t.Errorf("%+v", g)
			}
		}
		if p := e.Peek(impossible); p.Free != 0 {
			t.Errorf("%+v", p)
		}
	}
	e := &local.Engine{Clock: &clock.Clock{Base: time.Now()}}
	denies(t, e)
	e.Settle(0, 0, 1, time.Hour)
	if g, _, _ := e.Book(1, 0); g.Granted != 0 {
		t.Errorf("booked: %+v", g)
	}
	e.Settle(1, 1, 0, 0)
	for _, a := range []script.Algorithm{script.AlgorithmSlidingLog, script.AlgorithmTokenBucket} {
		possible := limitOf(2, 0, a)
		if g := e.Take(possible, 2, false); g.Granted != 2 {
			t.Errorf("algorithm %d: %+v", a, g)
		}
		denies(t, e)
		if g := e.Take(possible, 1, false); g.Granted != 0 {
			t.Errorf("algorithm %d: what was used is forgotten: %+v", a, g)
		}
		e.Clear()
	}
}

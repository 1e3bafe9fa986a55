package demo

import (
	"math"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
)

const ms = int64(time.Millisecond)

// ops makes one operation of n permits at each of the given milliseconds.
func ops(n int64, at ...int64) []history.Op {
	var all []history.Op
	for _, t := range at {
		all = append(all, history.Op{Start: t * ms, End: t*ms + 1, Permits: n})
	}
	return all
}

// lowered: 10 permits until a change from 1000 to 1010 ms to 6 permits, which is
// taken back from 3000 to 3010 ms.
func lowered() []phase {
	return []phase{
		{limit: 10, until: 1000 * ms},
		{limit: 6, asked: 1000 * ms, done: 1010 * ms, until: 3000 * ms},
		{limit: 10, asked: 3000 * ms, done: 3010 * ms, until: 5000 * ms},
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []history.Op
		ok   bool
	}{
		{"nothing", nil, true},
		{"full before and after", append(ops(10, 0, 3020), ops(6, 1990)...), true},
		{"over before", ops(11, 500), false},
		{"over after", ops(11, 4000), false},
		{"the old limit in a window that begins before the change was complete", ops(5, 1005, 1500), true},
		{"the old limit in a window that begins after it", ops(5, 1011, 1500), false},
		{"more than the old limit across the lowering", ops(6, 900, 1500), false},
		{"the old limit across the lowering", ops(5, 900, 1500), true},
		{"the new limit in a window that ends after the raise was begun", ops(5, 2500, 3001), true},
		{"the new limit in a window that ends before it", ops(5, 2500, 2900), false},
		{"more than the new limit across the raise", ops(6, 2500, 3100), false},
	} {
		ok := true
		for _, f := range judge(time.Second, lowered(), c.ops) {
			ok = ok && f.ok
		}
		if ok != c.ok {
			t.Errorf("%s: ok is %t: %+v", c.name, ok, judge(time.Second, lowered(), c.ops))
		}
	}
}

func TestJudgeFindsEveryStretchOnce(t *testing.T) {
	found := judge(time.Second, lowered(), append(ops(9, 0), ops(6, 2000)...))
	if len(found) != 2 || found[0].limit != 10 || found[0].busiest.Permits != 9 || found[1].limit != 6 ||
		found[1].busiest.Permits != 6 {
		t.Errorf("found %+v", found)
	}
	same := []phase{{limit: 10, until: 1000 * ms},
		{limit: 10, away: 5, asked: 1000 * ms, done: 1010 * ms, until: 2000 * ms}}
	if found := judge(time.Second, same, ops(10, 100)); len(found) != 1 {
		t.Errorf("found %+v", found)
	}
}

func TestUtilisation(t *testing.T) {
	near := func(got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("utilisation is %v, want %v", got, want)
		}
	}
	// Whole windows: 0-1000 of 10, 1010-2010 of 6, 3010-4010 of 10.
	near(utilisation(time.Second, lowered(), ops(10, 0, 3500)), 20.0/26)
	near(utilisation(time.Second, lowered(), append(ops(10, 0, 3500), ops(6, 1500)...)), 1)
	near(utilisation(time.Second, lowered(), nil), 0)
	away := []phase{{limit: 10, until: 1000 * ms},
		{limit: 10, away: 4, asked: 1000 * ms, done: 1000 * ms, until: 2000 * ms}}
	near(utilisation(time.Second, away, append(ops(10, 0), ops(3, 1200)...)), 13.0/16)
	near(utilisation(time.Minute, lowered(), ops(10, 0)), 0) // no window fits
}

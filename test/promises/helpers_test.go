package promises

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// between is what lies wholly between two instants.
func between(from, to int64, ops []history.Op) (inside []history.Op) {
	for _, op := range limittest.Since(from, ops) {
		if op.End < to {
			inside = append(inside, op)
		}
	}
	return inside
}

// settled fails the test unless the capacity of the limit has arrived, or still moves, as it
// should.
func settled(t *testing.T, l *shardlimit.Limiter, want bool, when string) {
	t.Helper()
	if st, err := l.Peek(t.Context()); err != nil || st.Settled != want {
		t.Errorf("%s: settled %t, %v", when, st.Settled, err)
	}
}

// knows fails the test unless the process remembers something of so many keys.
func knows(t *testing.T, users *shardlimit.Family, keys int) {
	t.Helper()
	if n := limittest.Known(users); n != keys {
		t.Errorf("%d keys are remembered, want %d", n, keys)
	}
}

// sends returns a check of how many script calls were counted since.
func sends(counter *atomic.Int64) (atMost func(t *testing.T, most int64, what ...any)) {
	before := counter.Load()
	return func(t *testing.T, most int64, what ...any) {
		t.Helper()
		if n := counter.Load() - before; n > most {
			t.Errorf("%v: %d script calls, at most %d are expected", what, n, most)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

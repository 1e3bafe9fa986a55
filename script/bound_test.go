package script

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/extent"
)

// act is a number of permits that may act from an instant on, us.
type act struct{ at, permits int64 }

// acts returns what a reply granted and when it acts: at now, or under a leaky bucket permit by
// permit.
func acts(a Algorithm, now int64, reply *TakeReply) (list []act) {
	if a != AlgorithmLeakyBucket {
		return []act{{now, reply.Granted}}
	}
	for k := range reply.Granted {
		list = append(list, act{now + int64(reply.DelayOf(k)/time.Microsecond), 1})
	}
	return list
}

// bound is an algorithm's textbook bound for all its shards together, checked over a history.
type bound struct {
	algorithm             Algorithm
	permits, burst, width int64 // width: the window, us
	shards                int64
}

// breach returns the instant at which a history first breaks the bound; -1: it does not. It brings
// it in order of time.
func (b bound) breach(history []act) int64 {
	slices.SortStableFunc(history, func(a, b act) int { return int(a.at - b.at) })
	switch b.algorithm {
	case AlgorithmSlidingLog, AlgorithmSlidingCounter:
		return b.slide(history)
	case AlgorithmFixedWindow:
		return b.edges(history)
	case AlgorithmTokenBucket:
		if b.permits > b.width { // what flows in within a microsecond, which no date tells apart
			return b.flow(history, b.burst*b.width+b.permits)
		}
		return b.flow(history, b.burst*b.width)
	}
	// Turns are rounded up to a microsecond, so two of one shard can be as much closer.
	return b.flow(history, b.shards*(b.width+b.permits))
}

// slide: no interval of one window holds more than the permits.
func (b bound) slide(history []act) int64 {
	first, sum := 0, int64(0)
	for _, h := range history {
		for sum += h.permits; history[first].at <= h.at-b.width; first++ {
			sum -= history[first].permits
		}
		if sum > b.permits {
			return h.at
		}
	}
	return -1
}

// edges: no window that begins at a multiple of its length holds more.
func (b bound) edges(history []act) int64 {
	window, sum := int64(-1), int64(0)
	for _, h := range history {
		if h.at/b.width != window {
			window, sum = h.at/b.width, 0
		}
		if sum += h.permits; sum > b.permits {
			return h.at
		}
	}
	return -1
}

// flow: in any t no more than room + permits*t/width, room and all sums in units of 1/width of a
// permit.
func (b bound) flow(history []act, room int64) int64 {
	last, sum := int64(0), int64(0)
	for _, h := range history {
		gap := min(h.at-last, room/b.permits+1) // what is longer empties the room anyway, and could overflow
		sum = max(sum-b.permits*gap, 0) + h.permits*b.width
		if last = h.at; sum > room {
			return h.at
		}
	}
	return -1
}

const epoch0 = 1_700_000_000_000_000 // where most simulated clocks begin

// tester is a test, or a draw of one.
type tester interface {
	Helper()
	Fatal(...any)
}

// must ends a test that cannot go on.
func must(t tester, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func terms(t tester, terms Terms) *Proposal {
	t.Helper()
	p, err := terms.Proposal()
	must(t, err)
	return p
}

// TestRatesDoNotDrift: after any number of steps a bucket holds exactly what its rate says, however
// odd or large the rate is.
func TestRatesDoNotDrift(t *testing.T) {
	for _, c := range []struct {
		target int64
		window time.Duration
		step   int64 // us, a multiple of nothing
		steps  int64
	}{
		{17, 3 * time.Second, 999_983, 3_600},
		{1, MaxWindow, 7_777_777_777, 1_000},
		{MaxPermits, time.Millisecond, 1, 3},
		{MaxPermits - 1, MaxWindow, 1_000_003, 5_000},
		{999_999_999_989, 7 * time.Millisecond, 6_999, 2_000},
	} {
		for _, a := range []Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket} {
			twin := newTwin(a)
			p := terms(t, Terms{Epoch: 1, Target: c.target, Floor: c.target, Window: c.window, Algorithm: a})
			now, total := int64(epoch0), int64(0)
			for range c.steps {
				total += twin.Take(now, ones(p, MaxPermits)).Granted
				now += c.step
			}
			gained, _ := mulDiv(c.target, c.step*(c.steps-1), 0, p.window)
			if total != c.target+gained {
				t.Errorf("%v, %d per %v: %d permits, expected %d", a, c.target, c.window, total, c.target+gained)
			}
		}
	}
}

// TestAllRetriesAreExact: so they are under every algorithm; and what a look says comes back is
// what is in use.
func TestAllRetriesAreExact(t *testing.T) {
	overPacked(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) {
			target := rapid.SampledFrom([]int64{1, 2, 17, 100, 999, 1_000_000}).Draw(t, "target")
			window := rapid.SampledFrom([]time.Duration{time.Millisecond, 3 * time.Second,
				time.Hour}).Draw(t, "window")
			burst := rapid.SampledFrom([]int64{0, 1, target/3 + 1, 3 * target}).Draw(t, "burst")
			p := terms(t, Terms{Epoch: 1, Target: target, Floor: target, Window: window, Algorithm: a,
				Burst: burst})
			twin, now := newTwin(a), epoch0+rapid.Int64Range(0, 1e9).Draw(t, "now")
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				r := asks(p, rapid.Int64Range(1, max(p.burst, target)+1).Draw(t, "size"),
					rapid.Int64Range(1, 3).Draw(t, "count"))
				reply := twin.Take(now, r)
				exact(t, twin, now, r, &reply)
				peek := twin.Peek(now)
				for _, r := range peek.Releases {
					peek.Used -= r.Permits
				}
				if peek.Used != 0 {
					t.Fatalf("all but %d permits come back", peek.Used)
				}
				now += rapid.Int64Range(0, int64(window/time.Microsecond)/4).Draw(t, "gap")
			}
		})
	})
}

func init() { extent.FewerDraws() }

package script

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// TestCancellationsLeaveNoTrace: permits are booked ahead and cancelled before they are due, in
// pieces and in any order; a leaky bucket's whole, and the newest first. Not a permit and not a
// microsecond is gained or lost by it.
func TestCancellationsLeaveNoTrace(t *testing.T) {
	overPacked(t, func(t *testing.T, a Algorithm) {
		rapid.Check(t, func(t *rapid.T) { cancelWalk(t, a, newTwin(a)) })
	})
}

func cancelWalk(t *rapid.T, a Algorithm, shard *twin) {
	window := rapid.SampledFrom([]time.Duration{50 * time.Millisecond, 3 * time.Second, time.Hour}).Draw(t, "window")
	target := rapid.SampledFrom([]int64{17, 100, 999_983}).Draw(t, "target")
	p := terms(t, Terms{Epoch: 1, Target: target, Floor: target, Window: window, Algorithm: a,
		Burst: rapid.SampledFrom([]int64{target, target/2 + 1, 2*target + 1}).Draw(t, "burst")})
	most, now := max(p.burst, target/2+1), int64(epoch0)
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
	for range 50 {
		now += random.Int64N(p.window)
		shard.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: 1 + random.Int64N(most), Count: 1}}})
		plain := shard.clone()
		held, due := bookSome(random, shard, p, now, most)
		if a != AlgorithmLeakyBucket { // its turns come one by one until then
			now += random.Int64N(due - now)
			random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		}
		for _, h := range slices.Backward(held) {
			for h.n > 0 {
				part := h.n
				if a != AlgorithmLeakyBucket {
					part = 1 + random.Int64N(h.n)
				}
				h.n -= part
				if got := shard.Settle(now, SettleRequest{Back: part, At: clock.ServerTime(h.at)}).Back; got != part {
					t.Fatalf("%d of %d came back", got, part)
				}
			}
		}
		if left, want := shard.Peek(now), plain.Peek(now); !reflect.DeepEqual(left, want) {
			t.Fatalf("%+v, where nothing was booked\n%+v", left, want)
		}
	}
}

// bookSome books ahead a few times, and returns what was booked, in this order, and when the first
// of it is due.
func bookSome(random *rand.Rand, shard *twin, p *Proposal, now, most int64) (held []dated, due int64) {
	due = now + p.window
	for range 1 + random.IntN(16) {
		r := &ReserveRequest{Proposal: p, Permits: 1 + random.Int64N(max(most/4, 1)), MaxDelay: 4 * duration(p.window)}
		if p.algorithm != AlgorithmLeakyBucket { // what is dated later leaves turns out before it, and those are gone
			r.MinDelay = duration(1 + random.Int64N(p.window))
		}
		reply := shard.Reserve(now, r)
		if us := int64(reply.Delay / time.Microsecond); reply.Granted > 0 && us > 0 {
			held = append(held, dated{int64(reply.At), reply.Granted})
			due = min(due, now+us)
		}
	}
	return held, due
}

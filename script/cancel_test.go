package script

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/extent"
)

// cancelWalk books permits ahead and cancels them before they are due, in pieces and in random
// order (a leaky bucket's, the newest first), between takes, until so many bookings have been
// canceled. Beside the shard goes a twin that never books: after every few bookings the two must be
// the same. A sliding counter is only compared with what it was before: what is booked ends a cell,
// and finer cells come back sooner.
func cancelWalk(t *testing.T, a Algorithm, random *rand.Rand, cancellations int, shard twin) {
	t.Helper()
	window := []time.Duration{50 * time.Millisecond, 3 * time.Second, time.Hour}[random.IntN(3)]
	target := []int64{17, 100, 999_983}[random.IntN(3)]
	burst := []int64{target, target/2 + 1, 2*target + 1}[random.IntN(3)]
	p := terms(t, Terms{Epoch: 1, Target: target, Floor: target, Window: window, Algorithm: a, Keep: time.Hour,
		Burst: burst})
	most := target
	if a.Bursty() {
		most = burst
	}
	plain, now, timeless := twin(nil), int64(epoch0), a == AlgorithmSlidingCounter || a == AlgorithmLeakyBucket
	if a != AlgorithmSlidingCounter {
		plain = newTwin(a)
	}
	for canceled := 0; canceled < cancellations; {
		now += random.Int64N(int64(window / time.Microsecond))
		take := &TakeRequest{Proposal: p, Groups: []Group{{Size: 1 + random.Int64N(most), Count: 1}}}
		got := shard.Take(now, take)
		if plain != nil {
			if want := plain.Take(now, take); got.Granted != want.Granted || got.Retry != want.Retry {
				t.Fatalf("%v, %d per %v: after %d cancellations %d granted, %d where nothing was ever booked", a,
					target, window, canceled, got.Granted, want.Granted)
			}
		}
		want := shard.Peek(now)
		held, due := bookSome(a, random, shard, p, now, most)
		if !timeless { // a leaky bucket's permits have their turns one by one until then
			now += random.Int64N(due - now)
		}
		if a != AlgorithmLeakyBucket {
			random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		}
		cancelAll(t, a, random, shard, held, now)
		canceled += len(held)
		if plain != nil {
			want = plain.Peek(now)
		}
		left := shard.Peek(now)
		if left.Free != want.Free || left.Used != want.Used || left.Reset != want.Reset ||
			plain != nil && !slices.Equal(left.Releases, want.Releases) {
			t.Fatalf("%v, %d per %v: after %d cancellations\n%+v, where nothing was ever booked\n%+v", a, target,
				window, canceled, left, want)
		}
	}
}

// cancelAll gives back what was booked, the last of it first, and sees that everything is taken
// back.
func cancelAll(t *testing.T, a Algorithm, random *rand.Rand, shard twin, held []holding, now int64) {
	t.Helper()
	for _, h := range slices.Backward(held) {
		for h.permits > 0 {
			part := h.permits
			if a != AlgorithmLeakyBucket {
				part = 1 + random.Int64N(h.permits)
			}
			if got := shard.Settle(now, SettleRequest{Back: part, At: clock.ServerTime(h.at)}).Back; got != part {
				t.Fatalf("%v: %d of %d came back", a, got, part)
			}
			h.permits -= part
		}
	}
}

// bookSome books ahead a few times, and returns what was booked, in this order, and when the first
// of it is due.
func bookSome(a Algorithm, random *rand.Rand, shard twin, p *Proposal,
	now, most int64) (held []holding, due int64) {
	due = now + int64(duration(p.window)/time.Microsecond)
	for range 1 + random.IntN(16) {
		r := &ReserveRequest{
			Proposal: p, Permits: 1 + random.Int64N(max(most/4, 1)), MaxDelay: 4 * duration(p.window),
			MinDelay: time.Microsecond + time.Duration(random.Int64N(int64(duration(p.window)))),
		}
		if a == AlgorithmLeakyBucket {
			r.MinDelay = 0 // what is dated later leaves turns out before it, and those are gone
		}
		reply := shard.Reserve(now, r)
		if us := int64(reply.Delay / time.Microsecond); reply.Granted > 0 && us > 0 {
			held = append(held, holding{permits: reply.Granted, at: int64(reply.At)})
			due = min(due, now+us)
		}
	}
	return held, due
}

// TestAMillionCancellationsLeaveNoTrace, of all algorithms together: whatever is booked and
// canceled, in whatever order, not a permit and not a microsecond is gained or lost by it.
func TestAMillionCancellationsLeaveNoTrace(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range extent.Some(uint64(40)) {
				cancelWalk(t, a, rand.New(rand.NewPCG(seed, 5)), 5000, newTwin(a))
			}
		})
	}
}

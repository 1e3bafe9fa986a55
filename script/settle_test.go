package script

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestSettledOnce: a mark has something settled once, and tells the same again from another. Others
// hear of it.
func TestSettledOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, client rueidis.Client) {
		overPacked(t, func(t *testing.T, a Algorithm) {
			e, ref := NewEndpoint(client), a.Keys(redistest.Prefix(t), "t", "limit")
			p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Algorithm: a})
			taken, err := e.Take(t.Context(), ref, ones(p, 10))
			if err != nil || taken.Granted != 10 || taken.Early {
				t.Fatal(taken, err)
			}
			r := SettleRequest{Back: 4, At: taken.RefundAt(9), Mark: "m", MarkFor: time.Minute}
			for _, c := range []struct {
				used, back int64
				repeated   Repeated
			}{{6, 4, First}, {6, 0, Again}, {7, 0, Another}, {6, 0, Again}} {
				r.Used = c.used
				if reply, err := e.Settle(t.Context(), ref, r); err != nil || reply.Back != c.back ||
					reply.Repeated != c.repeated || reply.Used != 6 || reply.Free != 94 || !reply.Early {
					t.Errorf("%d: %+v %v", c.used, reply, err)
				}
			}
			r.Back, r.Charge, r.Proposal = 0, 5, p
			if reply, err := e.Settle(t.Context(), ref, r); err != nil || reply.Granted != 0 ||
				reply.Repeated != Again {
				t.Errorf("charged although it was settled: %+v %v", reply, err)
			}
			for i, left := range []int64{94, 0, 0} { // of a log the full take serves the last one
				take := ones(p, 94)
				take.Rare = i == 2
				if reply, err := e.Take(t.Context(), ref, take); err != nil || reply.Granted != left || !reply.Early {
					t.Errorf("take %d: %+v %v", i, reply, err)
				}
			}
			key := ref.settleKeys(&SettleRequest{Mark: "m"})
			if ms, err := command(t, client, "PTTL", key[len(key)-2]).AsInt64(); err != nil || ms < 1 || ms > 60_000 {
				t.Errorf("the mark lives %d ms, %v", ms, err)
			}
		})
	})
}

// TestChargedBeyondWhatIsFree: later takes are denied until what was charged is paid, also where
// the shard had no state.
func TestChargedBeyondWhatIsFree(t *testing.T) {
	for a := range algorithms {
		twin, want := newTwin(a), int64(100) // more makes no difference
		if a.Bursty() {
			want = 130
		}
		p := terms(t, Terms{Epoch: 1, Target: 100, Floor: 100, Window: time.Hour, Algorithm: a})
		r := SettleRequest{Charge: 130, Owed: 2 * time.Hour, Proposal: p}
		if reply := twin.Settle(epoch0, r); reply.Status != Fresh || reply.Granted != want || reply.Free != 0 {
			t.Fatalf("%v: %+v", a, reply)
		}
		if reply := twin.Take(epoch0, ones(p, 1)); reply.Granted != 0 || reply.Retry <= 0 {
			t.Errorf("%v: %+v", a, reply)
		}
		r.Owed = time.Hour
		if reply := twin.Settle(epoch0, r); a.Bursty() && reply.Granted != 0 {
			t.Errorf("%v: %+v", a, reply)
		}
	}
}

// TestABusyBucketTakesEverythingBack: permits of a token bucket that is never full come back whole,
// within the time that it takes to fill, in any order.
func TestABusyBucketTakesEverythingBack(t *testing.T) {
	p := terms(t, Terms{Epoch: 1, Target: 1000, Floor: 1000, Window: time.Second, Algorithm: AlgorithmTokenBucket})
	for seed := range uint64(20) {
		random, twin, now := rand.New(rand.NewPCG(seed, 1)), newTwin(AlgorithmTokenBucket), int64(epoch0)
		twin.Take(now, ones(p, 1000))
		back, asked := int64(0), int64(0)
		var held []holding
		for range 300 {
			now += 10_000
			reply := twin.Take(now, ones(p, 30))
			held = append(held,
				holding{permits: reply.Granted, at: int64(reply.At), from: now + random.Int64N(900_000)})
			for i := 0; i < len(held); i++ {
				if h := held[i]; h.from <= now && h.permits > 1 {
					got := twin.Settle(now, SettleRequest{Back: h.permits / 2, At: clock.ServerTime(h.at)}).Back
					if now > epoch0+1_000_000 { // it was full at first
						back, asked = back+got, asked+h.permits/2
					}
					held = append(held[:i], held[i+1:]...)
					i--
				}
			}
		}
		if asked < 300 || back < asked*9/10 {
			t.Errorf("seed %d: %d of %d came back", seed, back, asked)
		}
	}
}

// TestWhatWasGrantedAWindowAgoDoesNotComeBack: an entry is dated like its last grant, so it may
// hold one whose mark is gone already.
func TestWhatWasGrantedAWindowAgoDoesNotComeBack(t *testing.T) {
	const window, step = 3600 * second, 10 * second
	for a := range algorithms {
		p := terms(t, Terms{Epoch: 1, Target: 10_000, Floor: 10_000, Window: time.Hour, Algorithm: a})
		twin, now := newTwin(a), int64(epoch0)
		takesUntil := func(end int64) (last TakeReply) {
			for ; now <= end; now += step {
				last = twin.Take(now, asks(p, 10, 1))
			}
			return last
		}
		taken := takesUntil(epoch0 + window)
		back := SettleRequest{Back: 10, At: taken.RefundAt(9)}
		if came := twin.Settle(now-step, back).Back; came != 10 {
			t.Errorf("%v: %d of 10 came back", a, came)
		}
		takesUntil(int64(back.At) + window)
		if came := twin.Settle(now, back).Back; came != 0 {
			t.Errorf("%v: %d came back again", a, came)
		}
	}
}

// TestTurnsOfAnotherRateDoNotComeBack: they are not as far apart as turns are now.
func TestTurnsOfAnotherRateDoNotComeBack(t *testing.T) {
	twin, now := newTwin(AlgorithmLeakyBucket), int64(epoch0)
	bucket := Terms{Epoch: 1, Target: 10, Floor: 10, Burst: 1000, Window: time.Second, Algorithm: AlgorithmLeakyBucket}
	given := twin.Take(now, &TakeRequest{Proposal: terms(t, bucket), Groups: []Group{{Size: 1000, Count: 1}}})
	bucket.Epoch, bucket.Window = 2, 10*time.Second
	slow := terms(t, bucket)
	twin.Take(now, &TakeRequest{Proposal: slow})
	if r := twin.Settle(now, SettleRequest{Back: 100, At: given.RefundAt(given.Granted - 1)}); r.Back != 0 {
		t.Fatalf("%+v", r)
	}
	if r := twin.Take(now, ones(slow, 1)); r.Granted > 0 && r.DelayOf(0) < 100*time.Second {
		t.Fatalf("its turn is before those that were given: %+v", r)
	}
}

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

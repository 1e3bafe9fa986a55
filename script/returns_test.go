package script

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// backWalk takes from a token bucket that never fills, as no time passes or because of a first
// grant that stays, and gives all of it back in the order that sort makes, in pieces. Every permit
// must come back, and the bucket must be as if only the first grant had been.
func backWalk(t *testing.T, random *rand.Rand, grants int, sort func([]holding), shard cancelShard) {
	t.Helper()
	target := []int64{17, 200, 999_983, 1_000_000}[random.IntN(4)]
	burst := target * int64(grants)
	p := terms(t,
		Terms{Epoch: 1, Target: target, Floor: target, Window: time.Second, Algorithm: AlgorithmTokenBucket,
			Burst: burst})
	plain, now := NewTwin(AlgorithmTokenBucket), int64(epoch0)
	gap := int64(1)
	if random.IntN(2) == 0 {
		gap = 100_000 / int64(grants)
		shard.Take(now, ones(p, 2*target))
		plain.Take(now, ones(p, 2*target))
	}
	var held []holding
	pass := func() { now += random.Int64N(gap) }
	for range grants {
		n := 1 + random.Int64N(target/3)
		reply := shard.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: n, Count: 1}}})
		if reply.Granted != n {
			t.Fatalf("%d of %d granted", reply.Granted, n)
		}
		held = append(held, holding{permits: n, at: reply.At})
		pass()
	}
	sort(held)
	for _, h := range held {
		for h.permits > 0 {
			part := h.permits - random.Int64N(h.permits)
			if got := shard.Refund(now, RefundRequest{Permits: part, At: h.at}).Refunded; got != part {
				t.Fatalf("%d per s: %d of %d came back", target, got, part)
			}
			h.permits -= part
			if random.IntN(2) == 0 {
				pass()
			}
		}
	}
	for _, later := range []int64{0, 1, 1_000_000 / target} {
		got, want := shard.Peek(now+later), plain.Peek(now+later)
		if got.Used != want.Used || got.Reset != want.Reset || !slices.Equal(got.Releases, want.Releases) {
			t.Fatalf("%d per s: after all is given back\n%+v, where it was never taken\n%+v", target, got, want)
		}
	}
}

// What is given back to a token bucket comes back to the last permit and microsecond: in any order
// of as many grants as it takes note of, and of more than that newest first or oldest first.
func TestRefundsToATokenBucketOnAServerComeBackInAnyOrder(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for name, c := range map[string]struct {
		grants int
		sort   func(*rand.Rand, []holding)
	}{
		"any order": {mostNotes, func(random *rand.Rand, h []holding) {
			random.Shuffle(len(h), func(i, j int) { h[i], h[j] = h[j], h[i] })
		}},
		"newest first": {100, func(_ *rand.Rand, h []holding) { slices.Reverse(h) }},
		"oldest first": {100, func(*rand.Rand, []holding) {}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range extent.Some(uint64(120)) {
				shard := cancelShard(NewTwin(AlgorithmTokenBucket))
				if seed%6 == 0 {
					shard = served{t,
						clockedPacked{clocked{client: client,
							ref: AlgorithmTokenBucket.Keys("", name, strconv.FormatUint(seed, 10))}}}
				}
				random := rand.New(rand.NewPCG(seed, 3))
				backWalk(t, random, c.grants, func(h []holding) { c.sort(random, h) }, shard)
			}
		})
	}
}

// What of more grants is given back in any order may be less, never more, and the same on a server
// as in process.
func TestManyRefundsOutOfOrderOnAServerGainNothing(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	p := terms(t,
		Terms{Epoch: 1, Target: 1000, Floor: 1000, Window: time.Second, Algorithm: AlgorithmTokenBucket, Burst: 1000})
	for seed := range extent.Some(uint64(20)) {
		random, now, lost := rand.New(rand.NewPCG(seed, 9)), int64(epoch0), int64(0)
		twin := NewTwin(AlgorithmTokenBucket)
		shard := served{t,
			clockedPacked{clocked{client: client,
				ref: AlgorithmTokenBucket.Keys("", "many", strconv.FormatUint(seed, 10))}}}
		var held []holding
		for range 100 {
			n := 2 + random.Int64N(8)
			reply := shard.Take(now, ones(p, n))
			twin.Take(now, ones(p, n))
			held = append(held, holding{permits: reply.Granted, at: reply.At})
		}
		used := twin.Peek(now).Used
		held = append(held, held...) // in two pieces
		random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		pieces := map[int64]int64{}
		for _, h := range held {
			part := h.permits / 2
			if pieces[h.at] > 0 {
				part = h.permits - pieces[h.at]
			}
			pieces[h.at] += part
			if part == 0 {
				continue
			}
			r := RefundRequest{Permits: part, At: h.at}
			got, want := shard.Refund(now, r), twin.Refund(now, r)
			if got != want {
				t.Fatalf("%+v, in process %+v", got, want)
			}
			used -= got.Refunded
			lost += part - got.Refunded
		}
		if left := shard.Peek(now).Used; left != used || left != lost {
			t.Errorf("%d are in use, %d of what was taken did not come back", left, lost)
		}
	}
}

// What was booked counts from when it is due: what was granted before and comes back after must
// leave it where it is, to the microsecond.
func TestRefundAfterABookingIsDueLeavesItUsed(t *testing.T) {
	p := terms(t,
		Terms{Epoch: 1, Target: 200, Floor: 200, Window: time.Second, Algorithm: AlgorithmTokenBucket, Burst: 400})
	twin, now := NewTwin(AlgorithmTokenBucket), int64(epoch0)
	before := twin.Take(now, ones(p, 2))
	booked := twin.Reserve(now,
		&ReserveRequest{Proposal: p, Permits: 45, MinDelay: time.Microsecond, MaxDelay: time.Second})
	one := twin.Take(now, ones(p, 1))
	if booked.Delay != time.Microsecond || one.Granted != 1 {
		t.Fatalf("%+v %+v", booked, one)
	}
	now++
	if reply := twin.Refund(now, RefundRequest{Permits: 2, At: before.At}); reply.Refunded != 2 {
		t.Errorf("%+v", reply)
	}
	if reply := twin.Refund(now, RefundRequest{Permits: 1, At: one.At}); reply.Refunded != 1 {
		t.Errorf("%+v", reply)
	}
	if reply := twin.Take(now, ones(p, 400)); reply.Granted != 355 {
		t.Errorf("%d beside 45", reply.Granted)
	}
	if reply := twin.Take(now+4999, ones(p, 1)); reply.Granted != 0 {
		t.Error("401 permits in 5 ms less a microsecond")
	}
	if reply := twin.Take(now+5000, ones(p, 1)); reply.Granted != 1 {
		t.Error("what the bucket gained in 5 ms is not there")
	}
}

// What a booking has made flow over is not brought back by refunds of other grants, whether they
// came before the booking or after it.
func TestRefundLeavesRoomForWhatIsBooked(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	p := terms(t,
		Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Second, Algorithm: AlgorithmTokenBucket, Burst: 10})
	booking := &ReserveRequest{Proposal: p, Permits: 5, MinDelay: 200 * time.Millisecond, MaxDelay: time.Minute}
	for name, shard := range map[string]cancelShard{
		"twin":  NewTwin(AlgorithmTokenBucket),
		"redis": served{t, clockedPacked{clocked{client: client, ref: AlgorithmTokenBucket.Keys("", "room", "limit")}}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, bookedFirst := range []bool{true, false} {
				now := int64(epoch0 + i*3_600_000_000)
				if bookedFirst {
					shard.Reserve(now, booking)
				}
				taken := shard.Take(now, ones(p, 3))
				if !bookedFirst {
					shard.Reserve(now, booking)
				}
				for _, c := range []struct{ after, back, comes int64 }{
					{100_000, 1, 1}, // of the 3 that were taken 1 would have flown over by now
					{100_000, 2, 1},
					{150_000, 1, 0},
				} {
					if reply := shard.Refund(now+c.after,
						RefundRequest{Permits: c.back, At: taken.At}); reply.Refunded != c.comes || reply.Free != 4 {
						t.Errorf("booked first %t, after %d us: %+v, want %d back and 4 free", bookedFirst, c.after,
							reply, c.comes)
					}
				}
				if reply := shard.Take(now+200_000, ones(p, 10)); reply.Granted != 5 {
					t.Errorf("booked first %t: %d beside the 5 that are due", bookedFirst, reply.Granted)
				}
			}
		})
	}
}

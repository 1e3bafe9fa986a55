package script

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// farBooking is a request for permits as far ahead as it takes.
func farBooking(p *Proposal, n int64) *ReserveRequest {
	return &ReserveRequest{Proposal: p, Permits: n, MaxDelay: 10 * MaxWindow, MaxBooked: MaxBooked}
}

// What is booked one by one comes as the rate says, but for a microsecond for each booking as dates
// are rounded up, however far ahead: bookings that became one delay nobody.
func TestABucketIsBookedAtItsRate(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmTokenBucket} {
		for _, burst := range []int64{1, 4, 50} {
			p := terms(t, Terms{Epoch: 1, Target: 7, Floor: 7, Window: time.Second, Algorithm: a, Burst: burst})
			twin, most := NewTwin(a), int64(4000)
			if a == AlgorithmTokenBucket {
				most = min(most, (mostBookings-1)*burst+1) // what becomes one is no more than the room
			}
			now, atOnce := int64(epoch0), burst
			if a == AlgorithmLeakyBucket {
				atOnce = 1
			}
			for i := range atOnce + most {
				us, rest := mulDiv(1_000_000, max(0, i+1-atOnce), 0, 7)
				if rest > 0 {
					us++
				}
				r := twin.Reserve(now, farBooking(p, 1))
				if off := r.Delay - duration(us); r.Granted != 1 || off < 0 || off > duration(i) {
					t.Fatalf("%v, burst %d, number %d: %d in %v, want %v", a, burst, i, r.Granted, r.Delay,
						duration(us))
				}
			}
			if r := twin.Reserve(now, farBooking(p, 1)); a == AlgorithmTokenBucket && burst < 5 &&
				(r.Granted != 0 || !r.Full) {
				t.Errorf("more bookings than there is room for: %+v", r)
			}
		}
	}
}

// farStep makes a random call, and tells what came of it; history gets what is used when.
func farStep(rng *rand.Rand, a Algorithm, s cancelShard, p *Proposal, now int64, held *[]holding, history *[]act) any {
	most := max(p.burst/2, 1)
	switch k := rng.IntN(12); {
	case k == 0 && len(*held) > 0:
		h := &(*held)[rng.IntN(len(*held))]
		if a == AlgorithmLeakyBucket {
			h = &(*held)[len(*held)-1]
		}
		back := h.permits
		h.permits = 0
		for i := h.from; i < h.to; i++ {
			(*history)[i].permits = 0
		}
		return s.Refund(now, RefundRequest{Permits: max(back, 1), At: h.at})
	case k == 1:
		reply := s.Take(now, ones(p, 1+rng.Int64N(most)))
		*history = append(*history, acts(a, now, &reply)...)
		return fmt.Sprint(reply.Granted, reply.At, reply.Retry, reply.Used)
	case k == 2:
		peek := s.Peek(now)
		return fmt.Sprint(peek.Used, peek.Free, peek.Reset, peek.Releases)
	}
	r := farBooking(p, 1+rng.Int64N(most))
	if a == AlgorithmLeakyBucket {
		r.Permits = 1
	} else if rng.IntN(8) == 0 {
		r.MinDelay = time.Duration(rng.Int64N(int64(p.Window())))
	}
	reply := s.Reserve(now, r)
	if reply.Granted > 0 {
		*history = append(*history, act{now + int64(reply.Delay/time.Microsecond), reply.Granted})
		*held = append(*held, holding{permits: reply.Granted, at: reply.At, from: int64(len(*history)) - 1,
			to: int64(len(*history))})
	}
	return fmt.Sprintf("%+v", reply)
}

// Whatever is booked far ahead and cancelled, and though bookings become one, a bucket keeps its
// bound, and the scripts do the same as the twin.
func TestFarBookingsKeepTheBoundAndAgreeOnAServer(t *testing.T) {
	client := redistest.Standalone(t).Client(t)
	for _, a := range []Algorithm{AlgorithmTokenBucket} {
		for seed := range extent.Some(uint64(24)) {
			rng := rand.New(rand.NewPCG(seed, 11))
			burst := []int64{1, 2, 7, 100}[seed%4]
			p := terms(t, Terms{Epoch: 1, Target: 17, Floor: 17, Window: time.Second, Algorithm: a, Burst: burst})
			shards := []cancelShard{NewTwin(a)}
			if seed < 4 {
				ref := a.Keys("", "far", strconv.FormatUint(seed, 10))
				shards = append(shards, served{t, clockedPacked{clocked{client: client, ref: ref}}})
			}
			farWalk(t, rng, a, p, shards)
		}
	}
}

func farWalk(t *testing.T, rng *rand.Rand, a Algorithm, p *Proposal, shards []cancelShard) {
	t.Helper()
	now, seed := int64(epoch0), rng.Uint64()
	held, history := make([][]holding, len(shards)), make([][]act, len(shards))
	for i := range 2400 {
		if rng.IntN(3) == 0 {
			now += rng.Int64N(20_000)
		}
		if i%1200 == 1199 {
			now += rng.Int64N(60_000_000)
		}
		var first any
		for k, s := range shards {
			said := farStep(rand.New(rand.NewPCG(seed, uint64(i))), a, s, p, now, &held[k], &history[k])
			if k == 0 {
				first = said
			} else if fmt.Sprint(said) != fmt.Sprint(first) {
				t.Fatalf("step %d: %v, the twin says %v", i, said, first)
			}
		}
	}
	if at := (bound{a, p.target, p.burst, p.window, 1}).breach(sortActs(history[0])); at >= 0 {
		t.Errorf("%v, burst %d: over its bound %d us after the start", a, p.burst, at-epoch0)
	}
}

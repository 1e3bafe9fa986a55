package script

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
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

// breach returns the instant at which a history, in order of time, first breaks the bound; -1: it
// does not.
func (b bound) breach(history []act) int64 {
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

func sortActs(history []act) []act {
	slices.SortStableFunc(history, func(a, b act) int { return int(a.at - b.at) })
	return history
}

const epoch0 = 1_700_000_000_000_000 // where most simulated clocks begin

func terms(tb interface{ Fatal(...any) }, t Terms) *Proposal {
	p, err := t.Proposal()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestSeventeenInThreeSeconds: more demand than there are permits, 17 per 3 s, in all for an hour
// on 1, 4 and 16 shards: no algorithm is ever over its bound for all shards together, and each
// gives out all there is. The clocks of the shards' nodes differ, but for a FixedWindow, whose
// edges are the clock's.
func TestSeventeenInThreeSeconds(t *testing.T) {
	for _, a := range allAlgorithms {
		for _, burst := range []int64{17, 5, 40} {
			for _, shards := range []int64{1, 4, 16} {
				if a.bursty() && burst >= shards || burst == 17 {
					seventeen(t, a, burst, shards)
				}
			}
		}
	}
}

// played is a shard that a test plays on its twin.
type played struct {
	Twin
	plan *Proposal
	skew int64 // of its node's clock, us
}

// divide makes 17 per 3 s on so many shards.
func divide(t *testing.T, rng *rand.Rand, a Algorithm, burst, shards int64) (parts []played) {
	var places []shard.Shard
	for i, share := range shard.Split(17, int(shards)) {
		places = append(places, shard.Shard{Slot: i, Node: "n", Share: share})
	}
	layout, err := shard.New(nil, 1, shard.Spec{Permits: 17, Window: 3 * time.Second, Algorithm: a.String(), Burst: burst},
		places)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range layout.Shards {
		part := played{Twin: NewTwin(a), plan: terms(t, Terms{
			Epoch: 1, Target: s.Share, Floor: s.Share, Window: 3 * time.Second, Algorithm: a, Burst: s.Burst,
		})}
		if a != AlgorithmFixedWindow {
			part.skew = rng.Int64N(600_000_000)
		}
		parts = append(parts, part)
	}
	return parts
}

func seventeen(t *testing.T, a Algorithm, burst, shards int64) {
	windows := extent.Some(int64(1200)) / shards
	rng := rand.New(rand.NewPCG(17, 3))
	parts, history, total := divide(t, rng, a, burst, shards), []act{}, int64(0)
	for now := int64(epoch0); now < epoch0+windows*3_000_000; {
		next := now + 1 + rng.Int64N(40_000)
		for _, part := range parts {
			reply := part.Take(now+part.skew,
				&TakeRequest{Proposal: part.plan, Groups: []Group{{Size: 1, Count: 1 + rng.Int64N(20)}}})
			history = append(history, acts(a, now, &reply)...)
			total += reply.Granted
			if last := now + int64(reply.Next/time.Microsecond) - 1; last > now {
				// the last instant at which there is none
				next = min(next, last)
			}
		}
		now = next
	}
	if at := (bound{a, 17, burst, 3_000_000, shards}).breach(sortActs(history)); at >= 0 {
		t.Errorf("%v over %d, burst %d: over its bound %d us after the start", a, shards, burst, at-epoch0)
	}
	gained := 17 * windows
	if burst < 2*shards {
		// a bucket with room for one permit gains nothing from when it is full until it is asked
		gained = 17 * windows * 117 / 120
	}
	least := map[Algorithm]int64{
		// the gaps between asks, up to 40 ms, are lost to permits that come back in between
		AlgorithmSlidingLog:     17 * windows * 118 / 120,
		AlgorithmSlidingCounter: 17 * windows * 115 / 120,
		AlgorithmFixedWindow:    17 * windows,
		AlgorithmTokenBucket:    burst + gained - shards,
		AlgorithmLeakyBucket:    burst + gained - shards,
	}[a]
	if total < least {
		t.Errorf("%v over %d, burst %d: %d permits, expected %d", a, shards, burst, total, least)
	}
}

// TestMergedEntriesKeepTheBound: grants and bookings so close together that they share entries of
// the log, which then counts them at the newest.
func TestMergedEntriesKeepTheBound(t *testing.T) {
	const limit, window = 500, 1_000_000
	p := terms(t, Terms{Epoch: 1, Target: limit, Floor: limit, Window: time.Second})
	for seed := range extent.Some(uint64(16)) {
		log, rng, history, total := NewTwin(AlgorithmSlidingLog), rand.New(rand.NewPCG(seed, 31)), []act{}, int64(0)
		for now := int64(epoch0); now < epoch0+8*window; now += 1 + rng.Int64N(2000) {
			reply, at := TakeReply{}, now
			if rng.IntN(4) == 0 {
				least := time.Duration(rng.Int64N(20_000)) * time.Microsecond
				reply = log.Reserve(now,
					&ReserveRequest{Proposal: p, Permits: 1, MinDelay: least, MaxDelay: time.Second}).TakeReply
				at += int64(reply.Delay / time.Microsecond)
			} else {
				reply = log.Take(now, ones(p, 1+rng.Int64N(3)))
			}
			history = append(history, act{at, reply.Granted})
			total += reply.Granted
		}
		if at := (bound{algorithm: AlgorithmSlidingLog, permits: limit,
			width: window}).breach(sortActs(history)); at >= 0 {
			t.Errorf("seed %d: over its bound %d us after the start", seed, at-epoch0)
		}
		if total < 7*limit {
			t.Errorf("seed %d: %d permits in 8 windows: that shows little", seed, total)
		}
	}
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
			twin := NewTwin(a)
			p := terms(t, Terms{Epoch: 1, Target: c.target, Floor: c.target, Window: c.window, Algorithm: a})
			now, total := int64(epoch0), int64(0)
			for range c.steps {
				total += twin.Take(now,
					&TakeRequest{Proposal: p, Groups: []Group{{Size: 1, Count: MaxPermits}}}).Granted
				now += c.step
			}
			gained, _ := mulDiv(c.target, c.step*(c.steps-1), 0, p.window)
			if total != c.target+gained {
				t.Errorf("%v, %d per %v: %d permits, expected %d", a, c.target, c.window, total, c.target+gained)
			}
		}
	}
}

// randomTwin is a twin after so many steps that a simulation drew.
func randomTwin(t *rapid.T, a Algorithm, steps int) (twin Twin, p *Proposal, now int64) {
	target := rapid.SampledFrom([]int64{1, 2, 17, 100, 999, 1_000_000}).Draw(t, "target")
	window := rapid.SampledFrom([]time.Duration{time.Millisecond, 3 * time.Second, time.Hour}).Draw(t, "window")
	burst := rapid.SampledFrom([]int64{0, 1, target/3 + 1, 3 * target}).Draw(t, "burst")
	p = terms(t, Terms{Epoch: 1, Target: target, Floor: target, Window: window, Algorithm: a, Burst: burst})
	twin, now = NewTwin(a), epoch0+rapid.Int64Range(0, 1e9).Draw(t, "now")
	for range steps {
		size := rapid.Int64Range(1, max(1, target/2)).Draw(t, "size")
		twin.Take(now,
			&TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: rapid.Int64Range(1, 3).Draw(t, "count")}}})
		now += rapid.Int64Range(0, int64(window/time.Microsecond)/4).Draw(t, "gap")
	}
	return twin, p, now
}

// TestAllRetriesAreExact: whoever comes back after Retry, alone, is served; a microsecond earlier
// he is not. Reset likewise.
func TestAllRetriesAreExact(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				twin, p, now := randomTwin(t, a, rapid.IntRange(1, 40).Draw(t, "steps"))
				size := rapid.Int64Range(1, max(p.burst, p.target)+1).Draw(t, "want")
				ask := &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}}
				peek := twin.Peek(now)
				if reset := int64(peek.Reset / time.Microsecond); reset > 0 {
					full := max(p.burst, 0)
					if !a.bursty() {
						full = p.target
					}
					if free := twin.Peek(now + reset).Free; free != full {
						t.Fatalf("%d free after Reset, not %d", free, full)
					}
					if free := twin.Peek(now + reset - 1).Free; free == full {
						t.Fatal("everything is free before Reset")
					}
				}
				total := int64(0)
				for _, r := range peek.Releases {
					total += r.Permits
				}
				if total != peek.Used {
					t.Fatalf("releases of %d, used %d", total, peek.Used)
				}
				reply := twin.Take(now, ask)
				switch {
				case reply.Retry < 0:
					if most := max(p.burst, 0); a.bursty() && size <= most || !a.bursty() && size <= p.target {
						t.Fatalf("%d permits: never", size)
					}
				case reply.Retry > 0:
					retry := int64(reply.Retry / time.Microsecond)
					if early := twin.Peek(now + retry - 1).Free; early >= size {
						t.Fatalf("%d are free a microsecond before Retry, %d were wanted", early, size)
					}
					if again := twin.Take(now+retry, ask); again.Granted != size {
						t.Fatalf("after Retry: %+v", again)
					}
				}
			})
		})
	}
}

func init() { extent.FewerDraws() }

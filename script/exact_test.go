package script

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// TestABookingWaitsForAllOfItsCredit: it is refused however little it comes before its credit pays
// for it, and granted from then on.
func TestABookingWaitsForAllOfItsCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard *twin, a Algorithm) {
		r := newRivals(t, shard, a, rivalShare, rivalShare/4)
		r.join(10, taker)
		r.run(3)
		book := func(after time.Duration) ReserveReply {
			return shard.Reserve(r.now, &ReserveRequest{Proposal: r.proposal, Permits: 8, MinDelay: after,
				MaxDelay: time.Minute, Caller: caller(0)})
		}
		for range 3 {
			book(0) // until it is in debt
		}
		pay := book(0).Paced
		if pay < time.Millisecond {
			t.Fatalf("its credit pays for it after %v", pay)
		}
		for _, early := range []time.Duration{pay / 4, pay * 3 / 4, pay - time.Microsecond} {
			if reply := book(early); reply.Granted != 0 || reply.Paced != pay || reply.Retry != pay {
				t.Errorf("paid after %v, wanted after %v: %+v", pay, early, reply)
			}
		}
		if reply := book(pay); reply.Granted != 8 || reply.Delay < pay {
			t.Errorf("paid after %v: %+v", pay, reply)
		}
	})
}

// TestBoundWithRefunds: grants that are given back, at once or late, in part or in pieces, never
// let more act than the bound allows. Into a fast token bucket many permits flow within a
// microsecond, which receipts and dates are counted in.
func TestBoundWithRefunds(t *testing.T) {
	for name, c := range map[string]struct {
		of      []Algorithm
		targets []int64
		window  time.Duration
	}{
		"any": {allAlgorithms, []int64{1, 3, 17, 200}, time.Second},
		"fast": {[]Algorithm{AlgorithmTokenBucket}, []int64{1001, 3000, 17_000, 1_000_000, 999_999_937},
			time.Millisecond},
	} {
		for _, a := range c.of {
			t.Run(name+" "+a.String(), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					target := rapid.SampledFrom(c.targets).Draw(t, "target")
					burst := rapid.SampledFrom([]int64{1, target/1000 + 1, target/20 + 1, target/2 + 1, target,
						2 * target}).Draw(t, "burst")
					p := terms(t,
						Terms{Epoch: 1, Target: target, Floor: target, Window: c.window, Algorithm: a, Burst: burst})
					refundingWalk(t, a, p, burst)
				})
			})
		}
	}
}

// holding is a grant that was not used yet, what its owner needs to give it back, and where it is
// in the history.
type holding struct{ permits, at, from, to int64 }

func refundingWalk(t *rapid.T, a Algorithm, p *Proposal, burst int64) {
	twin, now := newTwin(a), int64(epoch0)
	var history []act
	var held []holding
	for range rapid.IntRange(1, 80).Draw(t, "steps") {
		now += rapid.OneOf(rapid.Int64Range(0, p.window/50), rapid.Int64Range(0, p.window*3/5)).Draw(t, "gap")
		if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "refund") == 0 {
			i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
			h := &held[i]
			back := rapid.Int64Range(1, h.permits).Draw(t, "back")
			if a == AlgorithmLeakyBucket {
				back = h.permits // an ask acts at its last permit's turn: it is given back whole
			}
			request := SettleRequest{Back: back, At: clock.ServerTime(h.at)}
			if refunded := twin.Settle(now, request).Back; refunded > back {
				t.Fatalf("%d of %d refunded", refunded, back)
			}
			for j := h.from; j < h.to; j++ { // not used, whether the shard took it back or not
				history[j].permits -= back / (h.to - h.from)
			}
			if h.permits -= back; h.permits == 0 {
				held = slices.Delete(held, i, i+1)
			}
			continue
		}
		size := rapid.Int64Range(1, burst).Draw(t, "size")
		reply, at := TakeReply{}, now
		if rapid.IntRange(0, 2).Draw(t, "reserve") == 0 {
			if a == AlgorithmLeakyBucket {
				size = 1
			}
			least := time.Duration(rapid.SampledFrom([]int64{0, 0, 1, p.window / 4, 2 * p.window}).Draw(t,
				"least")) * time.Microsecond
			booked := twin.Reserve(now,
				&ReserveRequest{Proposal: p, Permits: size, MaxDelay: 5 * duration(p.window), MinDelay: least})
			reply, at = booked.TakeReply, at+int64(booked.Delay/time.Microsecond)
		} else {
			reply = twin.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}})
		}
		if reply.Granted > 0 {
			from := int64(len(history))
			if at > now {
				history = append(history, act{at, size})
			} else {
				history = append(history, acts(a, now, &reply)...)
			}
			held = append(held, holding{size, int64(reply.RefundAt(size - 1)), from, int64(len(history))})
		}
	}
	if at := (bound{a, p.target, burst, p.window, 1}).breach(history); at >= 0 {
		t.Fatalf("over its bound %d us after the start: %v", at-epoch0, history)
	}
}

// TestARaiseIsFeltAtOnce: one permit a minute is taken. Six seconds later the limit is raised, or
// its window becomes shorter, and who asks is told that the next permit comes as if the new rate
// had been there when the last one was given: no date that was computed from the old rate holds it
// up. A token bucket gains at the new rate from the change on.
func TestARaiseIsFeltAtOnce(t *testing.T) {
	for name, change := range map[string]struct {
		permits int64
		window  time.Duration
		wait    map[Algorithm]time.Duration
	}{
		"raised": {permits: 100, window: time.Minute, wait: map[Algorithm]time.Duration{
			AlgorithmTokenBucket: 600 * time.Millisecond,
		}},
		"shorter": {permits: 1, window: 10 * time.Second, wait: map[Algorithm]time.Duration{
			AlgorithmSlidingLog: 4 * time.Second, AlgorithmSlidingCounter: 4 * time.Second,
			AlgorithmFixedWindow: 4 * time.Second, // to the edge
			AlgorithmTokenBucket: 10 * time.Second, AlgorithmLeakyBucket: 4 * time.Second,
		}},
	} {
		for _, a := range allAlgorithms {
			twin := newTwin(a)
			ask := func(epoch, permits int64, window time.Duration, now int64) TakeReply {
				return twin.Take(now, ones(terms(t, Terms{
					Epoch: epoch, Target: permits, Floor: permits, Window: window, Algorithm: a,
				}), 1))
			}
			if r := ask(1, 1, time.Minute, epoch0); r.Granted != 1 || r.DelayOf(0) != 0 {
				t.Fatalf("%v: %+v", a, r)
			}
			wait := change.wait[a]
			if r := ask(2, change.permits, change.window, epoch0+6*second); wait > 0 && r.Retry != wait ||
				(r.Granted == 1) != (wait == 0) || r.DelayOf(0) != 0 {
				t.Errorf("%s, %v: wait %s, want %s: %+v", name, a, r.Retry, wait, r)
			}
		}
	}
}

// TestTheNextTurnIsAnIntervalAfterTheLast: turns given ahead stay, and those that follow come at
// the rate that is in force when they are given, raised or lowered.
func TestTheNextTurnIsAnIntervalAfterTheLast(t *testing.T) {
	twin := newTwin(AlgorithmLeakyBucket)
	for i, step := range []struct {
		permits, take int64
		at, first     time.Duration // when they are asked for, and when the first of them is due
	}{
		{10, 5, 0, 0}, // 0 to 4 s
		{100, 2, 0, 4100 * time.Millisecond},
		{1, 1, 4300 * time.Millisecond, 14200 * time.Millisecond}, // once the queue is empty
	} {
		got := twin.Take(epoch0+step.at.Microseconds(), ones(terms(t, Terms{Epoch: int64(i + 1), Target: step.permits,
			Floor: step.permits, Window: 10 * time.Second, Burst: 100, Algorithm: AlgorithmLeakyBucket}), step.take))
		if got.Granted != step.take || step.at+got.DelayOf(0) != step.first {
			t.Errorf("step %d: the first after %s: %+v", i, step.at+got.DelayOf(0), got)
		}
	}
}

package script

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// TestBoundWithRefunds: grants that are given back, at once or late, in part or in pieces, never
// let more act than the bound allows.
func TestBoundWithRefunds(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				target := rapid.SampledFrom([]int64{1, 3, 17, 200}).Draw(t, "target")
				burst := rapid.SampledFrom([]int64{1, target/2 + 1, target, 2 * target}).Draw(t, "burst")
				p := terms(t,
					Terms{Epoch: 1, Target: target, Floor: target, Window: time.Second, Algorithm: a, Burst: burst})
				refundingWalk(t, a, p, burst)
			})
		})
	}
}

// TestBoundOfFastTokenBuckets: the same where many permits flow in within a microsecond, which
// receipts and dates are counted in.
func TestBoundOfFastTokenBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := rapid.SampledFrom([]int64{1001, 3000, 17_000, 1_000_000, 999_999_937}).Draw(t, "target")
		burst := rapid.SampledFrom([]int64{1, 5, target/1000 + 1, target / 20, target, 2 * target}).Draw(t, "burst")
		p := terms(t,
			Terms{Epoch: 1, Target: target, Floor: target, Window: time.Millisecond, Algorithm: AlgorithmTokenBucket,
				Burst: burst})
		refundingWalk(t, AlgorithmTokenBucket, p, burst)
	})
}

// holding is a grant that was not used yet, what its owner needs to give it back, and where it is
// in the history.
type holding struct{ permits, at, from, to int64 }

func refundingWalk(t *rapid.T, a Algorithm, p *Proposal, burst int64) {
	twin, now := NewTwin(a), int64(epoch0)
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
			reply = twin.Reserve(now,
				&ReserveRequest{Proposal: p, Permits: size, MaxDelay: 5 * duration(p.window), MinDelay: least}).TakeReply
			at += int64(reply.Delay / time.Microsecond)
		} else {
			reply = twin.Take(now, &TakeRequest{Proposal: p, Groups: []Group{{Size: size, Count: 1}}})
		}
		if reply.Granted > 0 {
			from := int64(len(history))
			if at > now {
				history = append(history, act{at, size})
				reply.Delay = 0
			} else {
				history = append(history, acts(a, now, &reply)...)
			}
			held = append(held, holding{size, int64(reply.RefundAt(size - 1)), from, int64(len(history))})
		}
	}
	if at := (bound{a, p.target, burst, p.window, 1}).breach(sortActs(history)); at >= 0 {
		t.Fatalf("over its bound %d us after the start: %v", at-epoch0, history)
	}
}

// TestRefundOfWhatOverflowed: a token bucket takes back only what it would still hold if it had
// never been taken.
func TestRefundOfWhatOverflowed(t *testing.T) {
	p := terms(t, Terms{Epoch: 1, Target: 1, Floor: 1, Window: time.Second, Algorithm: AlgorithmTokenBucket, Burst: 2})
	twin := NewTwin(AlgorithmTokenBucket)
	first := twin.Take(epoch0, ones(p, 2))
	if reply := twin.Take(epoch0+1_500_000, ones(p, 1)); reply.Granted != 1 {
		t.Fatalf("%+v", reply)
	}
	// 1.5 of the 2 would have overflowed: 0.5 come back to the 0.5 that are there.
	if reply := twin.Settle(epoch0+1_500_000, SettleRequest{Back: 2, At: first.At}); reply.Back != 1 ||
		reply.Free != 1 {
		t.Errorf("%+v", reply)
	}
}

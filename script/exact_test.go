package script

import (
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// TestABookingWaitsForAllOfItsCredit: it is refused however little it comes before its credit pays
// for it, and granted from then on.
func TestABookingWaitsForAllOfItsCredit(t *testing.T) {
	everywhere(t, func(t *testing.T, shard counter, a Algorithm) {
		r := newRivals(t, shard, a)
		r.join(10, taker)
		r.run(3)
		book := func(after time.Duration) ReserveReply {
			reply, err := shard.reserve(r.now, &ReserveRequest{
				Proposal: r.proposal, Permits: 8, MinDelay: after, MaxDelay: time.Minute,
				Caller: caller(0),
			})
			if err != nil {
				t.Fatal(err)
			}
			return reply
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

// TestABucketComesBackUnderAnotherWindow: a bucket that was about to leave to another algorithm,
// and goes on under a new window.
func TestABucketComesBackUnderAnotherWindow(t *testing.T) {
	for _, a := range []Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket} {
		for name, server := range bucketServers(t, a) {
			twin, now := NewTwin(a).(packedTwin), int64(epoch0)
			twin.runFor(1_000_000 * time.Second)
			for i, step := range []struct {
				terms   Terms
				permits int64
			}{
				{Terms{Epoch: 1, Target: 10, Floor: 10, Window: 2 * time.Second}, 7},
				{Terms{Epoch: 2, Retire: true, Window: 2 * time.Second}, 0},
				{Terms{Epoch: 3, Target: 10, Floor: 10, Window: time.Second}, 1},
				{Terms{Epoch: 3, Target: 10, Floor: 10, Window: time.Second}, 10},
			} {
				step.terms.Algorithm, step.terms.Keep = a, time.Minute
				request := &TakeRequest{Proposal: terms(t, step.terms)}
				if step.permits > 0 {
					request.Groups = []Group{{Size: 1, Count: step.permits}}
				}
				want := twin.Take(now, request)
				got, err := server.take(now, request)
				if err != nil || got.Granted != want.Granted || got.Delay != want.Delay {
					t.Errorf("%v on %s, step %d: %v\ntwin   %+v\nserver %+v", a, name, i, err, want, got)
				}
				if head, _ := server.stored(); head != twin.head() {
					t.Errorf("%v on %s, step %d:\ntwin   %q\nserver %q", a, name, i, twin.head(), head)
				}
				now += 100_000
			}
		}
	}
}

func bucketServers(t *testing.T, a Algorithm) map[string]clockedShard {
	m := miniredis.RunT(t)
	ref := a.Keys(redistest.Prefix(t), "t", "limit")
	return map[string]clockedShard{
		"miniredis": emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ref},
		"redis":     clocked{client: redistest.Standalone(t).Client(t), uptime: 1_000_000, ref: ref},
	}
}

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

// TestARaiseIsFeltAtOnce: one permit a minute is taken. Six seconds later the limit is raised, or
// its window becomes shorter, and the next permit comes as if the new rate had been there when the
// last one was given: no date that was computed from the old rate holds it up. A token bucket gains
// at the new rate from the change on.
func TestARaiseIsFeltAtOnce(t *testing.T) {
	m, client := miniredis.RunT(t), redistest.Standalone(t).Client(t)
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
			ref := a.Keys(redistest.Prefix(t), "t", name)
			for where, shard := range map[string]cancelShard{
				"twin":      NewTwin(a),
				"miniredis": served{t, emulated{server: m, endpoint: NewEndpoint(miniClient(t, m)), ref: ref}},
				"redis":     served{t, clocked{client: client, uptime: 1_000_000, ref: ref}},
			} {
				ask := func(epoch, permits int64, window time.Duration, now int64) TakeReply {
					return shard.Take(now, ones(terms(t, Terms{
						Epoch: epoch, Target: permits, Floor: permits, Window: window, Algorithm: a,
					}), 1))
				}
				now := int64(epoch0)
				if r := ask(1, 1, time.Minute, now); r.Granted != 1 || r.Delay != 0 {
					t.Fatalf("%v on %s: %+v", a, where, r)
				}
				now += 6_000_000
				wait := change.wait[a]
				if r := ask(2, change.permits, change.window, now); wait > 0 && r.Retry != wait ||
					(r.Granted == 1) != (wait == 0) || r.Delay != 0 {
					t.Errorf("%s, %v on %s: wait %s, want %s: %+v", name, a, where, r.Retry, wait, r)
				}
				now += int64(wait / time.Microsecond)
				if wait == 0 {
					continue
				}
				if r := ask(2, change.permits, change.window, now-1); r.Granted != 0 {
					t.Errorf("%s, %v on %s, too early: %+v", name, a, where, r)
				}
				if r := ask(2, change.permits, change.window, now); r.Granted != 1 || r.Delay != 0 {
					t.Errorf("%s, %v on %s, when it was to come: %+v", name, a, where, r)
				}
			}
		}
	}
}

// TestTheNextTurnIsAnIntervalAfterTheLast: turns given ahead stay, and those that follow come at
// the rate that is in force when they are given, raised or lowered.
func TestTheNextTurnIsAnIntervalAfterTheLast(t *testing.T) {
	for where, shard := range bucketServers(t, AlgorithmLeakyBucket) {
		twin := NewTwin(AlgorithmLeakyBucket)
		for i, step := range []struct {
			permits, take int64
			first         time.Duration // of them, after the beginning
		}{
			{10, 5, 0}, // 0 to 4 s
			{100, 2, 4100 * time.Millisecond},
			{1, 1, 14200 * time.Millisecond}, // once the queue is empty
		} {
			now := int64(epoch0)
			if step.permits == 1 {
				now += 4_300_000
			}
			request := ones(terms(t, Terms{Epoch: int64(i + 1), Target: step.permits, Floor: step.permits,
				Window: 10 * time.Second, Burst: 100, Algorithm: AlgorithmLeakyBucket}), step.take)
			want := twin.Take(now, request)
			got, err := shard.take(now, request)
			act := now - epoch0 + int64(want.Delay/time.Microsecond)
			if err != nil || want.Granted != step.take || duration(act) != step.first || got.Granted != want.Granted ||
				got.Delay != want.Delay {
				t.Errorf("%s, step %d: the first after %s, %v\ntwin   %+v\nserver %+v", where, i, duration(act), err, want,
					got)
			}
		}
	}
}

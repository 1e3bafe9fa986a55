package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// flown has everything that waits looked at by who would put it on a flight.
func (l *Lane) flown() {
	for b := l.depart(l.outbox()); b != nil; b = l.depart(l.outbox()) {
		l.ready(b)
	}
}

// Calls that come while one is under way that finds the shard empty are answered by what
// that one has learnt. The lane has no node: whoever sends a call fails.
func TestCallsBehindOneThatFoundNothingAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		first, several := l.call(t.Context(), 1, false), (*outcomeOf)(nil)
		l.serve(1)
		synctest.Wait()
		behind, upTo := l.call(t.Context(), 1, false), l.call(t.Context(), 5, true)
		l.Known.shutUntil.Store(l.env.Clock.Now() + int64(time.Second))
		l.flown()
		synctest.Wait()
		for name, o := range map[string]*outcomeOf{"single": behind, "up to five": upTo} {
			if !o.ended.Load() || o.err != nil || o.Granted != 0 || o.Retry != UnknownRetry {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if first.Granted != 1 {
			t.Errorf("the first: %+v", first)
		}
		several = l.call(t.Context(), 2, false)
		if b := l.head; b.singles() {
			t.Error("when two permits are free together is not known")
		}
		l.serve(0)
		synctest.Wait()
		if several.err != nil || several.Granted != 0 {
			t.Errorf("two at once: %+v", several)
		}
	})
}

// Calls of a participant that come while one of its own is under way that is told to keep
// away are answered by that. If somebody else is on board, the batch goes.
func TestCallsBehindOneThatWasToldToKeepAwayAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		first := l.call(t.Context(), 1, false)
		l.serve(1)
		synctest.Wait()
		behind := l.call(t.Context(), 1, false)
		l.seat().notBefore.Store(l.env.Clock.Now() + int64(time.Second))
		l.flown()
		synctest.Wait()
		if first.Granted != 1 || !behind.ended.Load() || behind.err != nil || behind.Granted != 0 ||
			behind.Retry != UnknownRetry {
			t.Errorf("the first: %+v; behind it: %+v", first, behind)
		}
		now := l.env.Clock.Now()
		other := NewSeat(&Member{ID: "other", Weight: 1000}, l)
		b := newBatch(l)
		b.take(&Ask{N: 1, Seat: l.seat(), Since: now})
		if !b.heldBack(now) || b.heldBack(now+int64(time.Second)) {
			t.Error("the time at which the shard wants to see it again is not heeded")
		}
		b.take(&Ask{N: 1, Seat: other, Since: now})
		if b.heldBack(now) {
			t.Error("one is held back with another that shares its batch")
		}
	})
}

// A shard's wait counts from halfway between the call and its reply, about when the shard spoke; a
// reply without one ends it.
func TestAWaitCountsFromWhenTheShardSpoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grounded(t).seat()
		reply := script.TakeReply{Contended: true, Callers: []time.Duration{time.Second}}
		s.learn(1000, 5000, &reply, 0)
		if got := s.notBefore.Load(); got != 3000+int64(time.Second) {
			t.Errorf("not before %d", got)
		}
		reply.Callers[0] = 0
		if s.learn(1000, 5000, &reply, 0); s.notBefore.Load() != 0 {
			t.Error("it still waits")
		}
	})
}

// While a share is on its way, what the shard reckons with is soon not true any more: the
// participant looks again after a tenth of a window.
func TestAWaitIsShortWhileCapacityMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := grounded(t).seat()
		const window = time.Second
		s.Lane.Terms.Store(&Terms{Window: window})
		for _, share := range []int64{3, 1000} {
			reply := script.TakeReply{Contended: true, InForce: script.InForce{Share: share, Target: 500},
				Callers: []time.Duration{window}}
			if s.learn(0, 0, &reply, 0); s.notBefore.Load() != int64(window/10) {
				t.Errorf("share %d: not before %d", share, s.notBefore.Load())
			}
		}
		reply := script.TakeReply{Contended: true, InForce: script.InForce{Share: 500, Target: 500},
			Callers: []time.Duration{window}}
		if s.learn(0, 0, &reply, 0); s.notBefore.Load() != int64(window) {
			t.Errorf("settled: not before %d", s.notBefore.Load())
		}
	})
}

// The shard says when the first ask that it refused could be granted. Who wanted another number is
// told nothing, rather than a time that is not its own; and what one shard tells is not forgotten
// for another that tells nothing.
func TestWhenItCouldBeGrantedIsToldToThoseItIsAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		two, three := l.call(t.Context(), 2, false), l.call(t.Context(), 3, false)
		b := l.next()
		b.retry = 5 * time.Second
		l.land(b, make([]int64, len(b.classes)), nil)
		synctest.Wait()
		if two.Retry != 5*time.Second || three.Retry != UnknownRetry {
			t.Errorf("two permits in %s, three in %s", two.Retry, three.Retry)
		}
	})
}

// Batches are used again, for other lanes: what one was told of its limit is not told to another.
func TestADenialTellsNothingOfAnotherLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := grounded(t)
		for range 50 {
			l.call(t.Context(), 1, false)
			b := l.next()
			b.rest = 4711
			l.land(b, []int64{1}, nil)
			synctest.Wait()
			behind := l.call(t.Context(), 5, true)
			l.Known.shutUntil.Store(l.env.Clock.Now() + int64(time.Second))
			l.flown()
			synctest.Wait()
			l.Known.shutUntil.Store(0)
			if behind.Rest != 0 {
				t.Fatalf("granted %d, rest %d", behind.Granted, behind.Rest)
			}
		}
	})
}

// A call leaves time for other shards only if these are elsewhere.
func TestACallLeavesTimeForShardsElsewhere(t *testing.T) {
	l := grounded(t)
	for name, c := range map[string]struct {
		terms Terms
		want  bool
	}{
		"one shard":             {Terms{Shards: 1}, false},
		"shards of one node":    {Terms{Shards: 4}, false},
		"shards of other nodes": {Terms{Shards: 4, Split: true}, true},
	} {
		l.Terms.Store(&c.terms)
		if l.Terms.Load().splitOver(l.Node) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// prepared has everything that waits looked at by who would put it into a request.
func (sh *Shard) prepared() {
	for b := sh.nextBatch(); b != nil; b = sh.nextBatch() {
		sh.ready(b)
	}
}

// Calls that come while one is under way that finds the shard empty are answered by what
// that one has learnt. The shard has no node: whoever sends a call fails.
func TestCallsBehindOneThatFoundNothingAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		first, several := sh.call(t.Context(), 1, false), (*outcomeOf)(nil)
		sh.serve(1)
		synctest.Wait()
		behind, upTo := sh.call(t.Context(), 1, false), sh.call(t.Context(), 5, true)
		sh.Known.shutUntil.Store(sh.env.Clock.Now() + int64(time.Second))
		sh.prepared()
		synctest.Wait()
		for name, o := range map[string]*outcomeOf{"single": behind, "up to five": upTo} {
			if !o.ended.Load() || o.err != nil || o.Granted != 0 || o.Retry != UnknownRetry {
				t.Errorf("%s: %+v", name, o)
			}
		}
		if first.Granted != 1 {
			t.Errorf("the first: %+v", first)
		}
		several = sh.call(t.Context(), 2, false)
		if b := sh.head; b.singles() {
			t.Error("when two permits are free together is not known")
		}
		sh.serve(0)
		synctest.Wait()
		if several.err != nil || several.Granted != 0 {
			t.Errorf("two at once: %+v", several)
		}
	})
}

// Calls of a participant that come while one of its own is under way that is told to keep
// away are answered by that. If somebody else is in the batch, it goes.
func TestCallsBehindOneThatWasToldToKeepAwayAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		first := sh.call(t.Context(), 1, false)
		sh.serve(1)
		synctest.Wait()
		behind := sh.call(t.Context(), 1, false)
		sh.account().notBefore.Store(sh.env.Clock.Now() + int64(time.Second))
		sh.prepared()
		synctest.Wait()
		if first.Granted != 1 || !behind.ended.Load() || behind.err != nil || behind.Granted != 0 ||
			behind.Retry != UnknownRetry {
			t.Errorf("the first: %+v; behind it: %+v", first, behind)
		}
		now := sh.env.Clock.Now()
		other := NewAccount(&Participant{ID: "other", Weight: 1000}, sh)
		b := newBatch(sh)
		b.take(&Ask{N: 1, Account: sh.account(), Since: now})
		if !b.heldBack(now) || b.heldBack(now+int64(time.Second)) {
			t.Error("the time at which the shard wants to see it again is not heeded")
		}
		b.take(&Ask{N: 1, Account: other, Since: now})
		if b.heldBack(now) {
			t.Error("one is held back with another that shares its batch")
		}
	})
}

// A shard's wait counts from halfway between the call and its reply, about when the shard spoke; a
// reply without one ends it.
func TestAWaitCountsFromWhenTheShardSpoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := grounded(t).account()
		reply := script.TakeReply{Contended: true, Callers: []time.Duration{time.Second}}
		acc.learn(1000, 5000, &reply, 0)
		if got := acc.notBefore.Load(); got != 3000+int64(time.Second) {
			t.Errorf("not before %d", got)
		}
		reply.Callers[0] = 0
		if acc.learn(1000, 5000, &reply, 0); acc.notBefore.Load() != 0 {
			t.Error("it still waits")
		}
	})
}

// While a share is on its rtt, what the shard reckons with is soon not true any more: the
// participant looks again after a tenth of a window.
func TestAWaitIsShortWhileCapacityMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := grounded(t).account()
		const window = time.Second
		acc.Shard.Terms.Store(&Terms{Window: window})
		for _, share := range []int64{3, 1000} {
			reply := script.TakeReply{Contended: true, InForce: script.InForce{Share: share, Target: 500},
				Callers: []time.Duration{window}}
			if acc.learn(0, 0, &reply, 0); acc.notBefore.Load() != int64(window/10) {
				t.Errorf("share %d: not before %d", share, acc.notBefore.Load())
			}
		}
		reply := script.TakeReply{Contended: true, InForce: script.InForce{Share: 500, Target: 500},
			Callers: []time.Duration{window}}
		if acc.learn(0, 0, &reply, 0); acc.notBefore.Load() != int64(window) {
			t.Errorf("settled: not before %d", acc.notBefore.Load())
		}
	})
}

// The shard says when the first ask that it refused could be granted. Who wanted another number is
// told nothing, rather than a time that is not its own; and what one shard tells is not forgotten
// for another that tells nothing.
func TestWhenItCouldBeGrantedIsToldToThoseItIsAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := grounded(t)
		two, three := sh.call(t.Context(), 2, false), sh.call(t.Context(), 3, false)
		b := sh.next()
		b.retry = 5 * time.Second
		sh.answer(b, make([]int64, len(b.classes)), nil)
		synctest.Wait()
		if two.Retry != 5*time.Second || three.Retry != UnknownRetry {
			t.Errorf("two permits in %s, three in %s", two.Retry, three.Retry)
		}
	})
}

// A call leaves time for other shards only if these are elsewhere.
func TestACallLeavesTimeForShardsElsewhere(t *testing.T) {
	sh := grounded(t)
	for name, c := range map[string]struct {
		terms Terms
		want  bool
	}{
		"one shard":             {Terms{Shards: 1}, false},
		"shards of one node":    {Terms{Shards: 4}, false},
		"shards of other nodes": {Terms{Shards: 4, Split: true}, true},
	} {
		sh.Terms.Store(&c.terms)
		if sh.Terms.Load().splitOver(sh.Node) != c.want {
			t.Errorf("%s: %v", name, !c.want)
		}
	}
}

// What a call for several shards tells of the node is what the best of their answers tells: one
// that refuses them all is noted as one that refuses a call for one.
func TestTheVerdictOfARequest(t *testing.T) {
	full, foreign := &script.RefusedError{Reason: "OOM command not allowed"}, &script.StateError{Key: "k"}
	silence := context.DeadlineExceeded
	for name, c := range map[string]struct {
		each []error
		want error
	}{
		"granted":               {[]error{nil, nil}, nil},
		"one was refused":       {[]error{full, nil}, nil},
		"all were refused":      {[]error{full, full}, full},
		"foreign and refused":   {[]error{full, foreign}, foreign},
		"nobody was answered":   {[]error{silence, silence}, silence},
		"refused, and no reply": {[]error{silence, full}, full},
	} {
		sh, req := &Shard{Home: &Home{}, Node: &node.Node{}}, &request{}
		for _, err := range c.each {
			req.sections = append(req.sections, &section{shard: sh, Section: script.Section{Err: err}})
		}
		if got := req.verdict(sh); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Calls overlap, and replies are not taken in in the order in which the shard made them: what it
// said before does not shut it.
func TestAReplyTakenInLateShutsNothing(t *testing.T) {
	var k Knowledge
	hour := &Terms{Window: time.Hour, Proposal: proposed(t)}
	empty := &script.TakeReply{Waits: script.Waits{Next: time.Minute}}
	k.learn(100, 300, 300, hour, &script.TakeReply{Free: 7})
	if k.learn(50, 400, 400, hour, empty); k.Shut(500) || k.free.Load() != 7 {
		t.Error("what was sent before the limit was raised shut the shard")
	}
	if k.learn(150, 450, 450, hour, empty); k.Shut(500) {
		t.Error("a call that was under way with the one that found permits shut the shard")
	}
	if k.learn(160, 460, 460, hour, empty); !k.Shut(500) {
		t.Error("a shard that has nothing is asked")
	}
	if k.learn(155, 470, 470, hour, &script.TakeReply{Free: 3}); k.Shut(500) {
		t.Error("permits that were found meanwhile are not asked for")
	}
	if k.learn(170, 480, 480, hour, empty); !k.Shut(500) {
		t.Error("a shard that has nothing is asked")
	}
	if k.learn(200, 500, 500, hour, &script.TakeReply{Free: 1}); k.Shut(600) {
		t.Error("the shard has something again, and is not asked")
	}
}

// Permits of a shard whose share is on its way to it can come before any leave its log.
func TestAShareOnItsWayIsLookedForSoon(t *testing.T) {
	const second = int64(time.Second)
	for _, c := range []struct {
		force script.InForce
		next  time.Duration
		back  int64 // when a permit is expected
		open  int64 // when the shard is asked again
	}{
		{script.InForce{Share: 3, Target: 3}, time.Second, second, second / 10},
		{script.InForce{Share: 3, Target: 500}, time.Second, second / 10, second / 10},
		{script.InForce{Share: 0, Target: 500}, 0, second / 10, second / 10},
		{script.InForce{Share: 3, Target: 500}, time.Millisecond, second / 1000, second / 1000},
	} {
		var k Knowledge
		k.learn(0, 0, 0, &Terms{Window: time.Second, Proposal: proposed(t)},
			&script.TakeReply{InForce: c.force, Waits: script.Waits{Next: c.next}})
		if at := k.FreeAt.Load(); at != c.back || k.Shut(c.open) || !k.Shut(c.open-1) {
			t.Errorf("share %d of %d: a permit at %d, shut until %d", c.force.Share, c.force.Target, at,
				k.shutUntil.Load())
		}
	}
}

// proposed is a proposal that claims nothing.
func proposed(t *testing.T) *script.Proposal {
	t.Helper()
	p, err := script.Terms{}.Proposal()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

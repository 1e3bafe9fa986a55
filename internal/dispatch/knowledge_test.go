package dispatch

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

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

package shardlimit

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// Calls overlap, and replies are not taken in in the order in which the shard made them: what it said before does not shut it.
func TestAReplyTakenInLateShutsNothing(t *testing.T) {
	var k knowledge
	empty := &script.TakeReply{Next: time.Minute}
	k.learn(100, 300, time.Hour, &script.TakeReply{Free: 7})
	if k.learn(50, 400, time.Hour, empty); k.shut(500) || k.free.Load() != 7 {
		t.Error("what was sent before the limit was raised shut the shard")
	}
	if k.learn(100, 450, time.Hour, empty); !k.shut(500) {
		t.Error("a shard that has nothing is asked")
	}
	if k.learn(200, 500, time.Hour, &script.TakeReply{Free: 1}); k.shut(600) {
		t.Error("the shard has something again, and is not asked")
	}
}

package replay

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The bare command does what a take does: it uses up the limit, and the shard sees it. A permit
// comes at once while there are some; then the answer says when the next one can, which is not
// before the window is over.
func TestCapturedCommandTakes(t *testing.T) {
	client := servertest.Start(t).Admin()
	const permits = 10
	words, err := Capture(t.Context(), client, "replay-test", permits, time.Hour)
	limittest.Must(t, err)
	for range permits - 4 { // Capture took two
		limittest.Must(t, client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error())
	}
	shard, err := NewShard(client, "replay-test", permits, time.Hour)
	limittest.Must(t, err)
	if granted, err := shard.Take(t.Context(), 1, 1); err != nil || granted != 1 {
		t.Errorf("%d granted, err %v", granted, err)
	}
	for i, want := range []bool{true, false, false} {
		granted, after, err := shard.Try(t.Context())
		if err != nil || granted != want || granted != (after == 0) || after > time.Hour ||
			!granted && after < 50*time.Minute {
			t.Errorf("try %d: granted %v, the next after %s, err %v", i+1, granted, after, err)
		}
	}
}

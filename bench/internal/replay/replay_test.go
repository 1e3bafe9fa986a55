package replay

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestCapturedCommandTakes checks that the bare command does what a take does:
// it uses up the limit, and the shard sees it.
func TestCapturedCommandTakes(t *testing.T) {
	s := servertest.Start(t)
	client, err := rueidis.NewClient(server.Option(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	const permits = 10
	words, err := Capture(t.Context(), client, "replay-test", permits, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for range permits - 3 { // Capture took two
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	shard, err := NewShard(client, "replay-test", permits, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 0} {
		if granted, err := shard.Take(t.Context(), 1, 1); err != nil || granted != want {
			t.Errorf("take %d after the replays: %d granted, err %v; want %d", i+1, granted, err, want)
		}
	}
}

// TestTry: a permit comes at once while there are some; then the answer says when
// the next one can, which is not before the window is over.
func TestTry(t *testing.T) {
	s := servertest.Start(t)
	client, err := rueidis.NewClient(server.Option(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	shard, err := NewShard(client, "try-one", 2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false, false} {
		granted, after, err := shard.Try(t.Context())
		if err != nil || granted != want || granted != (after == 0) || after > time.Hour ||
			!granted && after < 50*time.Minute {
			t.Errorf("try %d: granted %v, the next after %s, err %v", i+1, granted, after, err)
		}
	}
}

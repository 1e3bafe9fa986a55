package replay

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestAged: a shard that gets an aged state knows on a real server what it granted, and
// forgets it when its window has passed.
func TestAged(t *testing.T) {
	s := servertest.Start(t)
	client, err := rueidis.NewClient(server.Option(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	const permits, window = 1_000_000, time.Hour
	shard, _, err := Capture(t.Context(), client, "aged-test", permits, window, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		rest       time.Duration // since the last of its grants
		least, top int64         // permits in use now
	}{
		{"full", 0, 900_000, 900_000},
		{"after half a window", window / 2, 440_000, 470_000}, // the log has a resolution of a 128th
		{"after a window", window + window/16, 0, 0},
	} {
		aged, err := Age(t.Context(), permits, window, 9000, 100, time.Now().Add(-c.rest))
		if err != nil {
			t.Fatal(err)
		}
		if err := shard.Restore(t.Context(), client, aged); err != nil {
			t.Fatal(err)
		}
		free, err := shard.TakeUpTo(t.Context(), permits)
		if used := permits - free; err != nil || used < c.least || used > c.top {
			t.Errorf("%s: %d permits in use, err %v; want %d to %d", c.name, used, err, c.least, c.top)
		}
	}
}

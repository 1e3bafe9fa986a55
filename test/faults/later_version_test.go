package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/shard"
)

// A later version gives a limit an algorithm that this one does not know. A process of this version
// reads that again and again. It uses its old shards for as long as they have state, and begins
// none anew.
func TestARecordOfALaterVersionConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		l := limittest.Limiter(t, f.Client(t), "l",
			shardlimit.Limit{Permits: 100, Per: 100 * time.Millisecond, Shards: 1})
		if got := limittest.Exhaust(t, l, 100); got != 100 {
			t.Fatalf("%d of 100 permits", got)
		}
		ofTheFuture(t, servers[0])
		time.Sleep(100 * time.Millisecond)
		if got := limittest.Exhaust(t, l, 100); got != 100 {
			t.Errorf("%d of 100 permits while the shards have state", got)
		}
		time.Sleep(6 * time.Second) // what was believed before is over
		// as if the later version had taken the capacity, and that had been forgotten
		servers[0].Drop(func(key string) bool { return !isRecord(key) })
		for range 60 {
			if d, _ := l.AllowUpTo(t.Context(), 100); d.Granted > 0 {
				t.Fatalf("%d permits of a shard that began anew", d.Granted)
			}
			time.Sleep(500 * time.Millisecond)
		}
	})
}

// ofTheFuture has the records on a server name another algorithm, as the next layout.
func ofTheFuture(t *testing.T, m *redissim.Server) {
	t.Helper()
	for key := range recordsOn(t, m).Image {
		if !isLayout(key) {
			continue
		}
		place, _ := m.Do([]string{"GET", key}).(string)
		layout := layoutAt(t, place)
		var is shard.Layout
		if err := json.Unmarshal([]byte(layout), &is); err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(strings.Replace(layout, fmt.Sprintf(`"epoch":%d`, is.Epoch),
			fmt.Sprintf(`"epoch":%d`, is.Epoch+1), 1), `"algorithm":"sliding_log"`, `"algorithm":"of_the_future"`, 1)
		if len(changed) != len(layout)+len("of_the_future")-len("sliding_log") {
			t.Fatalf("the record is not as expected: %s", layout)
		}
		m.Do([]string{"SET", key, withLayout(t, place, changed)})
	}
}

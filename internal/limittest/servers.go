package limittest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// KeysUnder returns every key of a server that has the prefix.
func KeysUnder(tb testing.TB, c rueidis.Client, prefix string) (keys []string) {
	tb.Helper()
	for cursor := uint64(0); ; {
		page, err := c.Do(context.Background(),
			c.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			tb.Fatal(err)
		}
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return keys
		}
	}
}

// BeginMigrations has the slots of all shards of the limit on their way to the next master.
func BeginMigrations(cluster *redistest.Cluster, st shardlimit.State) (all []*redistest.Migration) {
	for _, s := range st.Shards {
		all = append(all, cluster.BeginMigration(s.Slot, s.Slot, (s.Slot*3/16384+1)%3))
	}
	return all
}

// IsOfARecord matches the keys of records, of who uses them, and the pointer that tells where they
// are.
func IsOfARecord(key string) bool {
	return strings.Contains(key, "}:m:") || strings.Contains(key, "}:p:") || strings.HasSuffix(key, "}:p")
}

package faults

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// An operator deletes, renames or persists single keys, or makes them end. A record stands on at
// the other places. A shard has its share once more, and no more than that.
func TestWhatAnOperatorDoesToSingleKeys(t *testing.T) {
	t.Parallel()
	const permits = 300
	deeds := map[string]func(key string) []string{
		"DEL":     func(key string) []string { return []string{"DEL", key} },
		"EXPIRE":  func(key string) []string { return []string{"PEXPIRE", key, "1"} },
		"PERSIST": func(key string) []string { return []string{"PERSIST", key} },
		"RENAME":  func(key string) []string { return []string{"RENAME", key, key + ":old"} },
	}
	for name, deed := range deeds {
		for kind, is := range map[string]func(string) bool{
			"records": func(key string) bool { return strings.Contains(key, ":m:") },
			"shards":  func(key string) bool { return !strings.Contains(key, ":m:") },
		} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				t.Parallel()
				fl, posts := limittest.Proxied(t, 3)
				limit := shardlimit.Limit{Permits: permits, Per: time.Hour, Shards: 3}
				l := fl.Limiter(t, limit)
				limittest.Settled(t, l)
				granted := taken(t, l, permits/2)
				bad := posts[0]
				had := limittest.ShardOn(t, limittest.Peek(t, l), bad.Name).Share
				keys := limittest.KeysUnder(t, bad.Server.Client(t), fl.Prefix)
				if !slices.ContainsFunc(keys, is) {
					t.Fatalf("no such keys among %v", keys)
				}
				for _, key := range keys {
					if is(key) {
						bad.Do(t, deed(key)...)
					}
				}
				most := int64(permits)
				if kind == "shards" && name != "PERSIST" {
					most += had
				}
				granted += taken(t, l, permits)
				if granted > most {
					t.Errorf("%d permits of %d, and %d may come back", granted, permits, most-permits)
				}
				// A process that comes now finds the limit, and changes it.
				late := fl.Limiter(t, limit)
				raised := limit
				raised.Permits += 60
				limittest.Must(t, late.SetLimit(t.Context(), raised))
				if got := late.Limit().Permits; got != raised.Permits {
					t.Errorf("the limit is %d, want %d", got, raised.Permits)
				}
				limittest.AwaitThat(t, "what was added can be had", func() bool {
					granted += taken(t, late, 1)
					return granted >= raised.Permits
				})
			})
		}
	}
}

// A shard whose key was persisted gets a time to live again with a later take.
func TestAShardThatWasPersistedEnds(t *testing.T) {
	t.Parallel()
	fl, posts := limittest.Proxied(t, 1)
	l := fl.Limiter(t, shardlimit.Limit{Permits: 1000, Per: 16 * time.Second / 10, Shards: 1})
	limittest.MustGet(t, l, 1)
	for _, key := range limittest.KeysUnder(t, posts[0].Server.Client(t), fl.Prefix) {
		if !strings.HasSuffix(key, "}l:n:l") {
			continue
		}
		posts[0].Do(t, "PERSIST", key)
		limittest.AwaitThat(t, key+" ends", func() bool {
			limittest.MustGet(t, l, 1)
			return posts[0].Do(t, "PTTL", key) != "-1"
		})
	}
}

// taken asks so many times for a permit, and returns how many there were.
func taken(t *testing.T, l *shardlimit.Limiter, n int) (granted int64) {
	t.Helper()
	for range n {
		d, err := l.Allow(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		granted += d.Granted
	}
	return granted
}

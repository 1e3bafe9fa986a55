package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

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
				l := limittest.Limiter(t, fl.Client(t), "l", limit)
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
				late := limittest.Limiter(t, fl.Client(t), "l", limit)
				raised := limit
				raised.Permits += 60
				if err := late.SetLimit(t.Context(), raised); err != nil {
					t.Fatal(err)
				}
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
	l := limittest.Limiter(t, fl.Client(t), "l", shardlimit.Limit{Permits: 1000, Per: 16 * time.Second / 10, Shards: 1})
	if _, err := l.Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range limittest.KeysUnder(t, posts[0].Server.Client(t), fl.Prefix) {
		if !strings.HasSuffix(key, "}l:n:l") {
			continue
		}
		posts[0].Do(t, "PERSIST", key)
		limittest.AwaitThat(t, key+" ends", func() bool {
			if _, err := l.Allow(t.Context()); err != nil {
				t.Fatal(err)
			}
			return posts[0].Do(t, "PTTL", key) != "-1"
		})
	}
}

// A server in which a foreign script does not end, and one that could not write its file, are
// passed by. What they did not do is not lost, and they are served from again.
func TestAServerThatIsBusyOrMisconfiguredIsSkipped(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(t *testing.T, bad *limittest.ProxiedNode) (mended func()){
		"BUSY": func(t *testing.T, bad *limittest.ProxiedNode) func() {
			bad.Do(t, "CONFIG", "SET", "lua-time-limit", "20")
			ended := make(chan struct{})
			client, err := rueidis.NewClient(bad.Server.ClientOption())
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(ended)
				defer client.Close()
				script := client.B().Eval().Script("while true do end").Numkeys(0).Build()
				_ = client.Do(context.Background(), script)
			}()
			limittest.AwaitThat(t, "the server is busy", func() bool {
				return strings.Contains(answerOf(bad, "GET", "x"), "BUSY")
			})
			return func() {
				bad.Do(t, "SCRIPT", "KILL")
				<-ended
			}
		},
		"MISCONF": func(t *testing.T, bad *limittest.ProxiedNode) func() {
			_, folder, _ := strings.Cut(bad.Do(t, "CONFIG", "GET", "dir"), ":")
			if err := os.RemoveAll(strings.TrimSuffix(folder, "]")); err != nil {
				t.Fatal(err)
			}
			bad.Do(t, "CONFIG", "SET", "save", "3600 1")
			bad.Do(t, "BGSAVE")
			limittest.AwaitThat(t, "it could not write", func() bool {
				return strings.Contains(answerOf(bad, "SET", "x", "1"), "MISCONF")
			})
			return func() { bad.Do(t, "CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fl, posts := limittest.Proxied(t, 2)
			l := limittest.Limiter(t, fl.Client(t, limittest.PatientFor(5*time.Second)), "l",
				shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
			limittest.Settled(t, l)
			mended := trouble(t, posts[1])
			if granted := taken(t, l, 100); granted != 100 {
				t.Errorf("%d of 100 were served", granted)
			}
			mended()
			limittest.AwaitThat(t, "the whole limit can be had", func() bool {
				d, err := l.AllowN(t.Context(), 900)
				return err == nil && d.Allowed
			})
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

// answerOf is what a server answers, be it an error.
func answerOf(p *limittest.ProxiedNode, args ...string) string {
	client, err := rueidis.NewClient(p.Server.ClientOption())
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	reply, err := client.Do(context.Background(), client.B().Arbitrary(args...).Build()).ToAny()
	return fmt.Sprint(reply, err)
}

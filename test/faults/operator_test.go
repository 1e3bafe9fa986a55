package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// A node that goes and comes is told as such, the other one as well all the time.
func TestPingTellsWhichNodesAnswer(t *testing.T) {
	t.Parallel()
	f, servers := limittest.Independent(t, 2)
	c := f.Called("a", "b").Client(t)
	states := c.Ping(t.Context())
	if len(states) != 2 || states[0] != (shardlimit.NodeState{Name: "a"}) ||
		states[1] != (shardlimit.NodeState{Name: "b"}) {
		t.Fatalf("%+v", states)
	}
	if keys := limittest.KeysUnder(t, servers[0].Client(t), f.Prefix); len(keys) != 0 {
		t.Errorf("a Ping wrote %q, which a replica or a full server would refuse", keys)
	}
	servers[0].Kill()
	limittest.AwaitThat(t, "a is away", func() bool {
		states = c.Ping(t.Context())
		if states[1].Err != nil {
			t.Fatalf("b: %v", states[1].Err)
		}
		return states[0].Err != nil
	})
	servers[0].Restart()
	limittest.AwaitThat(t, "a is back", func() bool { return c.Ping(t.Context())[0].Err == nil })
	c.Close()
	for _, s := range c.Ping(t.Context()) {
		if !errors.Is(s.Err, shardlimit.ErrClosed) {
			t.Errorf("after Close: %+v", s)
		}
	}
}

// A cluster of which a master is away answers.
func TestPingOfAClusterThatLacksAMaster(t *testing.T) {
	t.Parallel()
	f, cluster := limittest.Clustered(t, 0)
	c := f.Client(t)
	if states := c.Ping(t.Context()); states[0].Err != nil {
		t.Fatal(states[0].Err)
	}
	cluster.Masters()[0].Pause()
	defer cluster.Masters()[0].Resume()
	if states := c.Ping(t.Context()); states[0].Err != nil {
		t.Error(states[0].Err)
	}
}

// A span tells the code of an error, whichever version of a server says it.
func TestTheCodeOfAnError(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.":                   "OOM",
		"ACL failure in script: User u has no permissions to run the 'get' command": "ERR",
		"The user executing the script can't run this command or subcommand":        "ERR",
		"":         "ERR",
		"TRYAGAIN": "TRYAGAIN",
	} {
		if got := telemetry.ErrorCode(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// While all nodes are well the log has no warning: not while processes start at the same time, not
// while they work, and not when they end.
func TestNothingIsWarnedOfWhileAllIsWell(t *testing.T) {
	t.Parallel()
	for place, at := range limittest.Places {
		t.Run(place, func(t *testing.T) {
			f := at(t)
			log, logs := logged(slog.LevelWarn)
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					c := f.Client(t, logs)
					l := limittest.Limiter(t, c, "l", shardlimit.PerSecond(10_000))
					users := limittest.Family(t, c, "users", shardlimit.PerSecond(100))
					for j := range 40 {
						if !serves(t, l) || !serves(t, users.Limiter(fmt.Sprint("user ", i*j))) {
							t.Error("it is not served")
						}
					}
					c.Close()
				})
			}
			wg.Wait()
			if log.count("\n") > 0 {
				t.Errorf("it warns: %s", log)
			}
		})
	}
}

// An operator deletes, renames or persists single keys, or makes them end. A record stands on at
// the other places. A shard has its share once more, and no more than that.
func TestWhatAnOperatorDoesToSingleKeys(t *testing.T) {
	t.Parallel()
	const permits = 300
	for name, deed := range map[string]func(key string) []string{
		"DEL":     func(key string) []string { return []string{"DEL", key} },
		"EXPIRE":  func(key string) []string { return []string{"PEXPIRE", key, "1"} },
		"PERSIST": func(key string) []string { return []string{"PERSIST", key} },
		"RENAME":  func(key string) []string { return []string{"RENAME", key, key + ":old"} },
	} {
		for _, records := range []bool{true, false} {
			is := func(key string) bool { return isRecord(key) == records }
			t.Run(fmt.Sprint(name, " of records: ", records), func(t *testing.T) {
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
				if !records && name != "PERSIST" {
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
		limittest.Must(t, err)
		granted += d.Granted
	}
	return granted
}

package faults

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// A node that goes and comes is told as such, the other one as well all the time.
func TestPingTellsWhichNodesAnswer(t *testing.T) {
	t.Parallel()
	servers := redistest.Servers(t, 2)
	f := limittest.Fleet{Prefix: redistest.Prefix(t)}
	for i, s := range servers {
		f.Nodes = append(f.Nodes, shardlimit.Node{Name: []string{"a", "b"}[i],
			Redis: limittest.Unhurried(s.ClientOption())})
	}
	c := f.Client(t)
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
		"NOREPLICAS Not enough good replicas to write.":                             "NOREPLICAS",
		"ACL failure in script: User u has no permissions to run the 'get' command": "ERR",
		"The user executing the script can't run this command or subcommand":        "ERR",
		"Script attempted to access a non local key in a cluster node":              "ERR",
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
			var log syncBuffer
			logs := func(c *shardlimit.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			}
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					c := f.Client(t, logs)
					l := limittest.Limiter(t, c, "l", shardlimit.PerSecond(10_000))
					users := limittest.Family(t, c, "users", shardlimit.PerSecond(100))
					for j := range 40 {
						_, err := l.Allow(t.Context())
						_, keyErr := users.Limiter(fmt.Sprint("user ", i*j)).Allow(t.Context())
						if err != nil || keyErr != nil {
							t.Errorf("%v, %v", err, keyErr)
						}
					}
					c.Close()
				})
			}
			wg.Wait()
			if log.count("\n") > 0 {
				t.Errorf("it warns: %s", log.buf.String())
			}
		})
	}
}

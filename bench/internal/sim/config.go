// Package sim plays a fleet of processes that share one limit over many nodes, event by event, in
// far larger numbers than a machine can hold. What decides is the real code: shards are arranged,
// split and ranked by package shard, and permits are granted, fairly, by script.SlidingLog, the Go
// twin of the scripts. What is modelled is the rest: networks and servers by times, and the
// client's routing, coalescing and denial memory, and what it reports and is told of its part, by
// the rules of the root package (route.go, lane.go, batch.go, knowledge.go, account.go), which it
// must be kept in step with.
//
// Events are those of batches, not of decisions: while all shards that a process
// could choose are busy, its arrivals only wait, so they are drawn as one number when
// the next batch leaves. That is exact for Poisson arrivals. Equal configurations
// give equal results. It does no I/O, reads no clock and starts no goroutines.
package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// ErrInvalidConfig is wrapped by the error of a configuration that cannot be played.
var ErrInvalidConfig = errors.New("invalid simulation")

// MaxShards is how many shards a simulated limit can have.
const MaxShards = 64

// Config is a world and how long to watch it.
type Config struct {
	Seed         uint64
	Limit        string // its name, as in the root package
	Permits      int64
	Window       time.Duration
	Shards       int
	Nodes        []shard.Node
	Participants []string // one a process

	// Demand is how many decisions a second each process asks for, as a Poisson
	// stream that does not wait for answers. Callers says instead that each process
	// has so many callers, each of which calls again when it has been answered, or,
	// if it was denied, when the first shard opens again. Exactly one of the two is given.
	Demand  []float64
	Callers int
	// Reaction is the time from an answer to the caller's next call.
	Reaction time.Duration

	// Timeout is the client's call timeout: asks that have waited for half of it are not
	// sent. 0: they wait for ever. What a client would do about a call that takes
	// longer (give it up, and avoid the node) is only counted: Result.Overdue.
	Timeout time.Duration

	Route   Route
	Network Network
	Server  Server

	Warm, For time.Duration // For is what counts
}

// Route is how a process picks a shard.
type Route struct {
	// Preferred is over how many shards, in its order, a process spreads its calls.
	Preferred int
	// A call that finds these almost idle goes to another one, which changes every Rotation, among
	// so many that each shard has Crowd participants that go round to it. 0: it does not.
	Rotation time.Duration
	Crowd    int
	// Even breaks ties between them by chance; otherwise the earlier one in the order wins.
	Even bool
	// Rejoin is the part (0 to 1) of the callers just answered that call again in
	// time for the next batch of the same shard. The others find it under way: with 0
	// a closed loop alternates between batches of one and of all the others.
	Rejoin float64
}

// Network is the time between a process and a node, one way: at least Delay,
// and on average Jitter more (exponentially distributed).
type Network struct {
	Delay, Jitter time.Duration
}

// Server is what a node does, one call after the other.
type Server struct {
	Script    time.Duration // CPU time of a call
	Uneven    []float64     // what a call costs each node, over Script; empty: they are alike
	Contended time.Duration // more of it while participants contend for the shard
	// If Period is not 0, the node gets only Quota of CPU time in each Period, and
	// what it does not use is lost.
	Quota, Period time.Duration
}

// AsBuilt is the routing of the root package.
func AsBuilt() Route { return Route{Preferred: 2, Rotation: 16 * time.Millisecond, Crowd: 250} }

// rotated is the place of the shard that the rotation has come to, or comes to k steps later.
func (c *Config) rotated(now int64, k int) int {
	reach := (c.Route.Crowd*c.Shards-1)/len(c.Participants) + 1
	reach = min(max(reach, c.Route.Preferred), c.Shards)
	return int((now/int64(c.Route.Rotation) + int64(k)) % int64(reach))
}

// script is what a call costs node i.
func (c *Config) script(i int) time.Duration {
	if len(c.Server.Uneven) == 0 {
		return c.Server.Script
	}
	return time.Duration(float64(c.Server.Script) * c.Server.Uneven[i])
}

func (c *Config) validate() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, a...)...)
	}
	switch {
	case c.Shards < 1 || c.Shards > MaxShards:
		return bad("%d shards, want 1 to %d", c.Shards, MaxShards)
	case c.Permits < int64(c.Shards) || c.Window < time.Millisecond:
		return bad("%d permits per %s over %d shards", c.Permits, c.Window, c.Shards)
	case len(c.Nodes) == 0 || len(c.Participants) == 0:
		return bad("%d nodes and %d participants", len(c.Nodes), len(c.Participants))
	case (c.Callers > 0) == (len(c.Demand) > 0):
		return bad("give either callers or demand")
	case len(c.Demand) > 0 && len(c.Demand) != len(c.Participants):
		return bad("demand of %d participants, there are %d", len(c.Demand), len(c.Participants))
	case c.Route.Rotation < 0 || c.Route.Crowd < 0:
		return bad("a rotation of %s among %d", c.Route.Rotation, c.Route.Crowd)
	case c.Route.Preferred < 1:
		return bad("%d preferred shards", c.Route.Preferred)
	case !(c.Route.Rejoin >= 0 && c.Route.Rejoin <= 1):
		return bad("%v of the callers rejoin", c.Route.Rejoin)
	case c.Server.Script <= 0 || c.Server.Contended < 0 || c.For <= 0 || c.Warm < 0 || c.Reaction < 0 ||
		c.Timeout < 0 || c.Network.Delay < 0 || c.Network.Jitter < 0:
		return bad("a time is not positive")
	case len(c.Server.Uneven) > 0 && len(c.Server.Uneven) != len(c.Nodes):
		return bad("what a call costs %d nodes, there are %d", len(c.Server.Uneven), len(c.Nodes))
	case c.Server.Period != 0 && (c.Server.Quota <= 0 || c.Server.Quota > c.Server.Period):
		return bad("a quota of %s in %s", c.Server.Quota, c.Server.Period)
	}
	for _, u := range c.Server.Uneven {
		if !(u > 0.01 && u < 100) {
			return bad("a call costs a node %v times as much as others", u)
		}
	}
	for _, d := range c.Demand {
		if !(d >= 0 && d < 1e9) {
			return bad("a demand of %v", d)
		}
	}
	return nil
}

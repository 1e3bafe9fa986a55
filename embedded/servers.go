// Package embedded runs Redis nodes inside the process (miniredis), so that a
// program can be developed and tested with nothing but Go.
//
// The nodes listen on ports of 127.0.0.1, run the same scripts as Redis and
// expire keys in real time. They are made to be right, not fast: every command
// looks at the expiry of every key, so that a decision takes about 0.2 ms with
// few keys and 1 ms with 1 000; and a node remembers the name of every key it
// ever had (its values are freed when they expire). Use real servers to measure
// or to serve.
//
// Nodes that StartInMemory starts have no ports. They work in the bubble of a testing/synctest
// test: there an hour passes in no time, for nodes and clients alike.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/rueidis"
	"github.com/shardlimit/shardlimit"
)

// MaxNodes is the most nodes Start starts.
const MaxNodes = 64

// patience is how long a connection is held to be good although nothing comes:
// a node that is stopped refuses connections and closes those there are, and
// one that is only late runs on the same machine as those who wait for it.
const patience = 30 * time.Second

// ErrClosed is returned by the methods of closed Servers.
var ErrClosed = errors.New("embedded: closed")

// Servers are independent in-process Redis nodes. The methods may be called
// concurrently.
type Servers struct {
	nodes []*node
}

// Start starts n nodes, 1 to MaxNodes. Close ends them.
func Start(n int) (*Servers, error) {
	return startAll(n, func(int) (*node, error) { return startNode() })
}

// StartInMemory starts n nodes, 1 to MaxNodes, that only clients of this process can reach, by
// Nodes: no port is opened. Close ends them.
//
// Called in the bubble of a testing/synctest test, nodes and clients live in the time of that test.
// It goes on when every goroutine of the test waits: time.Sleep(time.Hour) returns at once, an hour
// later, and so does Limiter.Wait. Close the clients and the nodes before the bubble ends. With the
// race detector of Go 1.26 call runtime.GOMAXPROCS(1) before: timers of a bubble that end on two
// processors at once make it fail.
func StartInMemory(n int) (*Servers, error) {
	return startAll(n, func(i int) (*node, error) { return startInMemory(fmt.Sprintf("embedded-%d:6379", i)) })
}

func startAll(n int, one func(i int) (*node, error)) (*Servers, error) {
	if n < 1 || n > MaxNodes {
		return nil, fmt.Errorf("embedded: %d nodes asked for, want 1 to %d", n, MaxNodes)
	}
	s := &Servers{}
	for i := range n {
		started, err := one(i)
		if s.nodes = append(s.nodes, started); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Len is the number of nodes.
func (s *Servers) Len() int { return len(s.nodes) }

// Nodes are the nodes as a Config wants them, named "embedded-0" and so on: a
// limit is placed in the same way whenever the same number of nodes is started.
// Each call returns a new slice.
func (s *Servers) Nodes() []shardlimit.Node {
	nodes := make([]shardlimit.Node, len(s.nodes))
	for i := range s.nodes {
		option := rueidis.ClientOption{
			InitAddress:       []string{s.Addr(i)},
			DisableCache:      true, // miniredis has no CLIENT TRACKING
			ForceSingleClient: true, // it answers CLUSTER SLOTS, but is none
			Dialer:            net.Dialer{Timeout: patience},
			ConnWriteTimeout:  patience,
		}
		if s.nodes[i].pipes != nil {
			option.DialCtxFn = s.nodes[i].pipes.dial
			option.Dialer.KeepAlive = time.Hour // a ping a second would be most of what a simulated day costs
		}
		nodes[i] = shardlimit.Node{Name: fmt.Sprintf("embedded-%d", i), Redis: option}
	}
	return nodes
}

// Addr is the address of node i, host:port; of one in memory it is only a name. It never changes.
// As with a slice, an i that is not in 0..Len()-1 panics, here and in the methods below.
func (s *Servers) Addr(i int) string { return s.nodes[i].addr }

// Stop makes node i go away: connections are cut and new ones refused, until
// Resume. Commands it has begun are finished first. It keeps its data, and time
// goes on for it. Stopping a stopped node does nothing.
func (s *Servers) Stop(i int) error { return s.nodes[i].change((*node).stop) }

// Resume brings node i back with its data, less what expired meanwhile. It does
// nothing to a node that runs. It fails if another program has taken the port.
func (s *Servers) Resume(i int) error { return s.nodes[i].change((*node).resume) }

// Lose makes node i come back empty, at the same address, as a Redis without
// persistence does when it is restarted: data and scripts are gone, connections
// cut, and its uptime begins anew. It may be stopped or running before.
func (s *Servers) Lose(i int) error { return s.nodes[i].change((*node).lose) }

// Close ends all nodes and frees their memory. It may be called again.
func (s *Servers) Close() {
	for _, n := range s.nodes {
		_ = n.change((*node).close)
	}
}

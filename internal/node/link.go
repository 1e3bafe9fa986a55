package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// link is how a node is reached.
type link struct {
	option  rueidis.ClientOption
	given   rueidis.Client // the caller's own client, or nil
	dialing breaker        // guards connecting
	client  atomic.Pointer[connected]

	mu      sync.Mutex
	attempt chan struct{} // closed when the attempt to connect that is under way ends
	failure error         // of the last attempt
	closed  bool
}

// connected is a node that has been reached at least once.
type connected struct {
	client rueidis.Client
	ranges []*Endpoint
	clocks []ServerClock // of each slot's server: one, or as many as a cluster has slots
}

// Connect connects to the node if it was not reached yet, as Endpoint does.
func (n *Node) Connect(ctx context.Context) error {
	if n.client.Load() != nil {
		return nil
	}
	if attempt := n.begin(); attempt != nil {
		select {
		case <-attempt:
		case <-ctx.Done():
			return because(fmt.Errorf("connecting to it: %w", ctx.Err()), ErrAway)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.client.Load() != nil:
		return nil
	case n.closed:
		return errClosed
	}
	return n.unconnected()
}

// begin returns the attempt to connect that is under way. If the pause since the last one is over,
// it begins another one. It is nil if there is none.
func (n *Node) begin() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed, n.client.Load() != nil: // meanwhile: a second client would take its place, which nobody closed
		return nil
	case n.attempt == nil && (n.dialing.ready() || n.dialing.claimProbe(n.env.Clock.Now())):
		n.attempt = make(chan struct{})
		go n.dial(n.attempt)
	}
	return n.attempt
}

// unconnected is why the last attempt to connect failed. n.mu is held.
func (n *Node) unconnected() error {
	if n.failure == nil {
		return ErrAway
	}
	return because(n.failure, ErrAway)
}

func (n *Node) dial(attempt chan struct{}) {
	c, err := n.reach()
	if err == nil && n.env.greet != nil {
		if err = n.env.greet(n.Name, c.ranges[0].scripts); err != nil {
			n.closeClient(c.client)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer close(attempt)
	n.attempt, n.failure = nil, err
	if err != nil {
		n.blame(telemetry.Probe, err)
		if n.dialing.broke(n.env.Clock.Now()) {
			n.tell("node cannot be used", 0, err)
		}
		return
	}
	if n.closed {
		n.closeClient(c.client)
		return
	}
	n.mistake.Store(nil)
	n.client.Store(c)
	if n.dialing.succeeded(n.env.Clock.Now()) {
		n.env.Back()
	}
}

func (n *Node) reach() (*connected, error) {
	client := n.given
	if client == nil {
		var err error
		if client, err = newOwned(n.option, n.redialled); err != nil && n.option.TLSConfig == nil && hungUp(err) {
			// The cause is not wrapped: whoever looks for the innermost error would miss the hint.
			err = errors.New(err.Error() +
				": the server hung up at once; it may want TLS, or have no connection left (maxclients)")
		}
		if err != nil {
			return nil, err
		}
	}
	ranges, clocks := 1, 1
	if client.Mode() == rueidis.ClientModeCluster {
		ranges, clocks = clusterRanges, shard.Slots
	}
	c := &connected{client: client, ranges: make([]*Endpoint, ranges), clocks: make([]ServerClock, clocks)}
	for i := range c.ranges {
		c.ranges[i] = &Endpoint{node: n, scripts: script.NewEndpoint(client)}
	}
	return c, nil
}

// known returns the endpoint of a slot if the node was reached before, else nil.
func (n *Node) known(slot int) *Endpoint {
	if c := n.client.Load(); c != nil {
		return c.ranges[slot*len(c.ranges)/shard.Slots]
	}
	return nil
}

// ServerClock returns what is known of the time of the server of a slot. A node that was not
// reached yet has a clock that nobody has heard.
func (n *Node) ServerClock(slot int) *ServerClock {
	c := n.client.Load()
	if c == nil {
		return &ServerClock{}
	}
	return &c.clocks[slot*len(c.clocks)/shard.Slots]
}

// Spread reports whether the node is known to spread its slots over several servers: a cluster.
func (n *Node) Spread() bool {
	c := n.client.Load()
	return c != nil && len(c.ranges) > 1
}

// Masters is the number of servers that this node spreads its slots over.
func (n *Node) Masters(ctx context.Context) int {
	c := n.client.Load()
	if c == nil || c.client.Mode() != rueidis.ClientModeCluster {
		return 1
	}
	info, err := c.client.Do(ctx, c.client.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return 1
	}
	_, after, _ := strings.Cut(info, "cluster_size:")
	size := 1
	_, _ = fmt.Sscan(after, &size) // else it stays 1
	return max(size, 1)
}

func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if c := n.client.Load(); c != nil {
		n.closeClient(c.client)
	}
}

func (n *Node) closeClient(c rueidis.Client) {
	if n.given == nil {
		c.Close()
	}
}

// hangUp has a standalone server dialled anew. A cluster and Sentinel tell themselves where the
// master is.
func (n *Node) hangUp() {
	if o, ours := n.client.Load().client.(*owned); ours && o.Mode() == rueidis.ClientModeStandalone {
		o.hangUp()
	}
}

// redialled tells that a connection was made anew.
func (n *Node) redialled() {
	if n.env.reconnected != nil && n.client.Load() != nil {
		n.env.reconnected()
	}
}

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
	node    *Node
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
func (l *link) Connect(ctx context.Context) error {
	if l.client.Load() != nil {
		return nil
	}
	if attempt := l.begin(); attempt != nil {
		select {
		case <-attempt:
		case <-ctx.Done():
			return because(fmt.Errorf("connecting to it: %w", ctx.Err()), ErrAway)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.client.Load() != nil:
		return nil
	case l.closed:
		return errClosed
	}
	return l.unconnected()
}

// begin returns the attempt to connect that is under way. If the pause since the last one is over,
// it begins another one. It is nil if there is none.
func (l *link) begin() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed, l.client.Load() != nil: // meanwhile: a second client would take its place, which nobody closed
		return nil
	case l.attempt == nil && (l.dialing.ready() || l.dialing.claimProbe(l.node.env.Clock.Now())):
		l.attempt = make(chan struct{})
		go l.dial(l.attempt)
	}
	return l.attempt
}

// unconnected is why the last attempt to connect failed. l.mu is held.
func (l *link) unconnected() error {
	if l.failure == nil {
		return ErrAway
	}
	return because(l.failure, ErrAway)
}

func (l *link) dial(attempt chan struct{}) {
	c, err := l.reach()
	if err == nil && l.node.env.greet != nil {
		if err = l.node.env.greet(l.node.Name, c.ranges[0].scripts); err != nil {
			l.closeClient(c.client)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer close(attempt)
	l.attempt, l.failure = nil, err
	if err != nil {
		l.node.blame(telemetry.Probe, err)
		if l.dialing.broke(l.node.env.Clock.Now()) {
			l.node.tell("node cannot be used", 0, err)
		}
		return
	}
	if l.closed {
		l.closeClient(c.client)
		return
	}
	l.node.mistake.Store(nil)
	l.client.Store(c)
	if l.dialing.succeeded(l.node.env.Clock.Now()) {
		l.node.env.Back()
	}
}

func (l *link) reach() (*connected, error) {
	client := l.given
	if client == nil {
		var err error
		if client, err = newOwned(l.option, l.redialled); err != nil && l.option.TLSConfig == nil && hungUp(err) {
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
		c.ranges[i] = &Endpoint{node: l.node, scripts: script.NewEndpoint(client)}
	}
	return c, nil
}

// known returns the endpoint of a slot if the node was reached before, else nil.
func (l *link) known(slot int) *Endpoint {
	if c := l.client.Load(); c != nil {
		return c.ranges[slot*len(c.ranges)/shard.Slots]
	}
	return nil
}

// ServerClock returns what is known of the time of the server of a slot. A node that was not
// reached yet has a clock that nobody has heard.
func (l *link) ServerClock(slot int) *ServerClock {
	c := l.client.Load()
	if c == nil {
		return &ServerClock{}
	}
	return &c.clocks[slot*len(c.clocks)/shard.Slots]
}

// Spread reports whether the node is known to spread its slots over several servers: a cluster.
func (l *link) Spread() bool {
	c := l.client.Load()
	return c != nil && len(c.ranges) > 1
}

// Masters is the number of servers that this node spreads its slots over.
func (l *link) Masters(ctx context.Context) int {
	c := l.client.Load()
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

func (l *link) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if c := l.client.Load(); c != nil {
		l.closeClient(c.client)
	}
}

func (l *link) closeClient(c rueidis.Client) {
	if l.given == nil {
		c.Close()
	}
}

// hangUp has a standalone server dialled anew. A cluster and Sentinel tell themselves where the
// master is.
func (l *link) hangUp() {
	if o, ours := l.client.Load().client.(*owned); ours && o.Mode() == rueidis.ClientModeStandalone {
		o.hangUp()
	}
}

// redialled tells that a connection was made anew.
func (l *link) redialled() {
	if l.node.env.reconnected != nil && l.client.Load() != nil {
		l.node.env.reconnected()
	}
}

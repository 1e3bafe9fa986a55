// Package node is the Redis endpoints of a process: which there are, how to reach them, and whether
// they answer.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

const (
	dialTimeout = 500 * time.Millisecond // of one attempt to connect, whatever the caller's context
	// A connection without an answer for this long is given up by rueidis.
	connSilence = time.Second
	// clusterParts is the number of parts that the slots of a cluster are in, each with a breaker.
	// Asks for all slots of a part share a request, with a command for each slot. More parts make
	// emptier requests; fewer make requests with more commands, more of which wait for a master
	// that does not answer, and are shut out with its slots.
	clusterParts = 16
	// Whole is the part of a node that is no cluster.
	Whole = -1
)

// Why a call was not sent.
var (
	ErrAway     = errors.New("the node does not answer; its breaker is open")
	errRefuses  = errors.New("the node refuses calls; its breaker is open")
	errClosed   = errors.New("the client is closed")
	ErrStranger = errors.New("the node is not in this process' Config")
)

// Node is a configured Redis endpoint: how to reach it, and whether it answers.
type Node struct {
	Name string
	sets *telemetry.Node
	kept sync.Map // see Kept
	// Why it cannot serve as it is configured, or not keep records, which takes other rights; nil:
	// it can, as far as known.
	mistake, votes atomic.Pointer[mistake]
	written        atomic.Bool // it has carried out what writes

	// How it is reached.
	env     *Settings
	option  rueidis.ClientOption
	given   rueidis.Client // the caller's own client, or nil
	dialing breaker        // guards connecting
	client  atomic.Pointer[connected]

	mu      sync.Mutex
	attempt chan struct{} // closed when the attempt to connect that is under way ends
	failure error         // of the last attempt
	closed  bool

	telling sync.Mutex
	told    string // to the log, last
	toldAt  int64
}

// connected is a node that has been reached at least once.
type connected struct {
	client rueidis.Client
	parts  []*Endpoint
	clocks []ServerClock // of each slot's server: one, or as many as a cluster has slots
}

// Endpoint is what fails and recovers as one: a standalone node, a Sentinel
// set, or a part of a cluster's slots.
type Endpoint struct {
	node    *Node
	breaker breaker
	cause   atomic.Pointer[failure] // why no call was served last
	looking atomic.Bool             // it is found out whether it answers
	answers atomic.Int64            // to calls, so far
	scripts *script.Endpoint
}

// New returns a node that is connected when it is first used.
func New(s Spec, env *Settings) *Node {
	return &Node{Name: s.Name, sets: telemetry.NewNode(s.Name), env: env, given: s.Client, option: safeOption(s.Option)}
}

// Endpoint returns what serves a slot, connecting first if need be. It waits
// at most until ctx ends; an attempt to connect goes on without the caller.
func (n *Node) Endpoint(ctx context.Context, slot int) (*Endpoint, error) {
	if err := n.Connect(ctx); err != nil {
		return nil, err
	}
	return n.known(slot), nil
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
func (n *Node) Spread() bool { return n.Part(0) != Whole }

// Part returns the part of the node that a slot is in, as far as known.
func (n *Node) Part(slot int) int {
	if c := n.client.Load(); c != nil && len(c.parts) > 1 {
		return slot * clusterParts / shard.Slots
	}
	return Whole
}

// Kept returns what those who send calls keep with the node under a key; it is made if there is
// nothing.
func (n *Node) Kept(key int, fresh func() any) any {
	if kept, ok := n.kept.Load(key); ok {
		return kept
	}
	kept, _ := n.kept.LoadOrStore(key, fresh())
	return kept
}

// known returns the endpoint of a slot if the node was reached before, else nil.
func (n *Node) known(slot int) *Endpoint {
	if c := n.client.Load(); c != nil {
		return c.parts[slot*len(c.parts)/shard.Slots]
	}
	return nil
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
	case n.closed, n.client.Load() != nil: // since: another one's client would take its place, unclosed
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

// because tells why a call was not sent: the cause first.
func because(cause, state error) error { return fmt.Errorf("%w (%w)", cause, state) }

func (n *Node) dial(attempt chan struct{}) {
	c, err := n.reach()
	if err == nil && n.env.greet != nil {
		if err = n.env.greet(n.Name, c.parts[0].scripts); err != nil {
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
		n.env.back()
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
	parts, clocks := 1, 1
	if client.Mode() == rueidis.ClientModeCluster {
		parts, clocks = clusterParts, shard.Slots
	}
	c := &connected{client: client, parts: make([]*Endpoint, parts), clocks: make([]ServerClock, clocks)}
	for i := range c.parts {
		c.parts[i] = &Endpoint{node: n, scripts: script.NewEndpoint(client)}
	}
	return c, nil
}

// Away tells why calls for the slot are not sent.
func (n *Node) Away(slot int) error {
	if e := n.known(slot); e != nil {
		if cause := e.cause.Load(); cause != nil {
			if text, said := script.Said(cause.err); said {
				return because(errors.New(text), errRefuses)
			}
			return because(cause.err, ErrAway)
		}
		return ErrAway
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unconnected()
}

// Refusal returns how the last call for the slot that was not served ended, while calls are not
// sent and for BreakerMaxPause after that call; else nil.
func (n *Node) Refusal(slot int) error {
	e := n.known(slot)
	if e == nil {
		return nil
	}
	cause := e.cause.Load()
	if cause == nil || e.breaker.ready() && n.env.Clock.Now()-cause.at > int64(BreakerMaxPause) {
		return nil
	}
	return cause.err
}

// failure is how a call ended that was not served, and when.
type failure struct {
	err error
	at  int64
}

// Ready reports whether calls for the slot may be sent now; connecting counts as ready.
func (n *Node) Ready(slot int) bool {
	if e := n.known(slot); e != nil {
		return e.breaker.ready()
	}
	return n.dialing.ready()
}

// tell tells the log that calls begin or cease to avoid the node, and why. All slots of a server of
// a cluster meet the same: that is told once a minute, with one of them.
func (n *Node) tell(what string, slot int, err error) {
	level, text, attrs := slog.LevelInfo, what, []any{"node", n.Name}
	if err != nil {
		level, text, attrs = slog.LevelWarn, what+err.Error(), append(attrs, "err", err)
	}
	if n.Spread() {
		attrs = append(attrs, "slot", slot)
		now := n.env.Clock.Now()
		n.telling.Lock()
		defer n.telling.Unlock()
		if n.told == text && now-n.toldAt < int64(time.Minute) {
			return
		}
		n.told, n.toldAt = text, now
	}
	n.env.Log.Log(context.Background(), level, what, attrs...)
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

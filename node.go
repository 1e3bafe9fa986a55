package shardlimit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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
	// Slots of a cluster are guarded by breakers in this many ranges: fine
	// enough that a lost master does not shut the others' slots out.
	clusterRanges = 64
)

var (
	errNodeAway     = errors.New("the node does not answer; its breaker is open")
	errNodeRefuses  = errors.New("the node answers, but refuses calls; its breaker is open")
	errNodeGone     = errors.New("the node was taken out, or the client is closed")
	errNodeStranger = errors.New("the node is not in this process' Config")
)

// node is a configured Redis endpoint: how to reach it, and whether it answers.
type node struct {
	name   string
	option rueidis.ClientOption
	given  rueidis.Client // the caller's own client, or nil
	clock  func() int64   // nanoseconds
	log    nodeLog
	vouch  func(rueidis.Client) error // why a server that was connected must not be used; nil: it may always
	sets   *telemetry.Node

	dialing breaker // guards connecting
	client  atomic.Pointer[connected]

	mu      sync.Mutex
	attempt chan struct{} // closed when the attempt to connect that is under way ends
	failure error         // of the last attempt
	closed  bool
}

// nodeLog is told when calls begin and cease to avoid a node.
type nodeLog func(node, what string, err error)

// connected is a node that has been reached at least once.
type connected struct {
	client rueidis.Client
	ranges []*endpoint
	clocks []nodeClock // of each slot's server: one, or as many as a cluster has slots
}

// endpoint is what fails and recovers as one: a standalone node, a Sentinel
// set, or a range of a cluster's slots.
type endpoint struct {
	breaker breaker
	cause   atomic.Pointer[error] // why the breaker opened when it last did
	scripts *script.Endpoint
}

// because notes why the breaker opened.
func (e *endpoint) because(err error) { e.cause.Store(&err) }

func newNode(n Node, clock func() int64, log nodeLog) *node {
	return &node{name: n.Name, given: n.Client, option: safeOption(n.Redis), clock: clock, log: log, sets: telemetry.NewNode(n.Name)}
}

// reaches reports whether the node is the one that n describes.
func (n *node) reaches(other Node) bool {
	return n.given == other.Client && slices.Equal(n.option.InitAddress, other.Redis.InitAddress)
}

// safeOption sets what a limiter must not do without (see notes in docs/decisions.md).
func safeOption(o rueidis.ClientOption) rueidis.ClientOption {
	o.AlwaysPipelining = true // else a context's end closes the shared connection
	o.ConnLifetime = 0        // else an expiring connection re-sends what it has sent
	o.DisableAutoPipelining = false
	o.DisableCache = true
	if o.Dialer.Timeout == 0 {
		o.Dialer.Timeout = dialTimeout
	}
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = connSilence
	}
	if o.Sentinel.MasterSet != "" && o.Sentinel.TopologyRefreshInterval == 0 {
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second // a missed +switch-master must not pin us
	}
	if o.ClusterOption.MaxMovedRedirections == 0 {
		// One is usual while slots migrate. Two masters that point at each other make
		// rueidis open a connection for every turn, so leave that to the breaker.
		o.ClusterOption.MaxMovedRedirections = 3
	}
	if o.DialFn == nil {
		o.DialCtxFn = detachedDial(o.DialCtxFn, o.Dialer.Timeout)
	}
	return o
}

type dialFunc = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// detachedDial dials with a timeout of its own. rueidis dials with the context
// of whichever caller came first, so one caller's short deadline would fail the
// others that wait for the same connection.
func detachedDial(inner dialFunc, timeout time.Duration) dialFunc {
	if inner == nil {
		inner = func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
			network := "tcp"
			if strings.HasPrefix(addr, "/") {
				network = "unix"
			}
			if cfg != nil {
				td := tls.Dialer{NetDialer: d, Config: cfg}
				return td.DialContext(ctx, network, addr)
			}
			return d.DialContext(ctx, network, addr)
		}
	}
	return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return inner(ctx, addr, d, cfg)
	}
}

// redialled calls after with every connection that dial makes.
func redialled(dial dialFunc, after func()) dialFunc {
	return func(ctx context.Context, addr string, d *net.Dialer, cfg *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, cfg)
		if err == nil {
			after()
		}
		return conn, err
	}
}

// endpoint returns what serves a slot, connecting first if need be. It waits
// at most until ctx ends; an attempt to connect goes on without the caller.
func (n *node) endpoint(ctx context.Context, slot int) (*endpoint, error) {
	c, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.endpoint(slot), nil
}

func (c *connected) endpoint(slot int) *endpoint {
	return c.ranges[slot*len(c.ranges)/shard.Slots]
}

// clockOf returns what is known of the time of the server of a slot. A node that was not reached yet has a clock that nobody has heard.
func (n *node) clockOf(slot int) *nodeClock {
	c := n.client.Load()
	if c == nil {
		return &nodeClock{}
	}
	return &c.clocks[slot*len(c.clocks)/shard.Slots]
}

// known returns the endpoint of a slot if the node was reached before, else nil.
func (n *node) known(slot int) *endpoint {
	if c := n.client.Load(); c != nil {
		return c.endpoint(slot)
	}
	return nil
}

func (n *node) connect(ctx context.Context) (*connected, error) {
	if c := n.client.Load(); c != nil {
		return c, nil
	}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errNodeGone
	}
	if c := n.client.Load(); c != nil { // an attempt has ended since: another one's client would take its place, unclosed
		n.mu.Unlock()
		return c, nil
	}
	if n.attempt == nil {
		if !n.dialing.ready() && !n.dialing.claimProbe(n.clock()) {
			err := n.failure
			n.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", errNodeAway, err)
		}
		n.attempt = make(chan struct{})
		go n.dial(n.attempt)
	}
	attempt := n.attempt
	n.mu.Unlock()

	select {
	case <-attempt:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: connecting to it: %w", errNodeAway, ctx.Err())
	}
	if c := n.client.Load(); c != nil {
		return c, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errNodeGone
	}
	return nil, fmt.Errorf("%w: %w", errNodeAway, n.failure)
}

// redial begins another attempt in the background if the pause since the last one is over.
func (n *node) redial(now int64) {
	if !n.dialing.claimProbe(now) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.attempt == nil && !n.closed && n.client.Load() == nil {
		n.attempt = make(chan struct{})
		go n.dial(n.attempt)
	}
}

func (n *node) dial(attempt chan struct{}) {
	client, err := n.given, error(nil)
	if client == nil {
		client, err = rueidis.NewClient(n.option)
	}
	if err == nil && n.vouch != nil {
		if err = n.vouch(client); err != nil {
			n.closeClient(client)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	defer close(attempt)
	n.attempt, n.failure = nil, err
	if err != nil {
		if n.dialing.broke(n.clock()) {
			n.log(n.name, "node cannot be used", err)
		}
		return
	}
	if n.closed {
		n.closeClient(client)
		return
	}
	n.dialing.succeeded()
	ranges, clocks := 1, 1
	if client.Mode() == rueidis.ClientModeCluster {
		ranges, clocks = clusterRanges, shard.Slots
	}
	c := &connected{client: client, ranges: make([]*endpoint, ranges), clocks: make([]nodeClock, clocks)}
	for i := range c.ranges {
		c.ranges[i] = &endpoint{scripts: script.NewEndpoint(client)}
	}
	n.client.Store(c)
}

// refuse takes a connection out of use, and reports whether it was in use. Further attempts to connect follow.
func (n *node) refuse(on *connected, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !n.client.CompareAndSwap(on, nil) {
		return false
	}
	n.failure = err
	if n.dialing.broke(n.clock()) {
		n.log(n.name, "node cannot be used any more", err)
	}
	return true
}

// away tells why calls for the slot are not sent.
func (n *node) away(slot int) error {
	if e := n.known(slot); e != nil {
		if cause := e.cause.Load(); cause != nil {
			if text, said := script.Said(*cause); said {
				return fmt.Errorf("%w: %s", errNodeRefuses, text)
			}
			return fmt.Errorf("%w: %w", errNodeAway, *cause)
		}
		return errNodeAway
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failure != nil {
		return fmt.Errorf("%w: %w", errNodeAway, n.failure)
	}
	return errNodeAway
}

// ready reports whether calls for the slot may be sent now; connecting counts as ready.
func (n *node) ready(slot int) bool {
	if e := n.known(slot); e != nil {
		return e.breaker.ready()
	}
	return n.dialing.ready()
}

// masters is the number of servers that this node spreads its slots over.
func (n *node) masters(ctx context.Context) int {
	c := n.client.Load()
	if c == nil || c.client.Mode() != rueidis.ClientModeCluster {
		return 1
	}
	info, err := c.client.Do(ctx, c.client.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return 1
	}
	for line := range strings.Lines(info) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster_size:"); ok {
			if size, err := strconv.Atoi(v); err == nil && size > 0 {
				return size
			}
		}
	}
	return 1
}

func (n *node) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	if c := n.client.Load(); c != nil {
		n.closeClient(c.client)
	}
}

func (n *node) closeClient(c rueidis.Client) {
	if n.given == nil {
		c.Close()
	}
}

// Package node is the Redis endpoints of a process: which there are, how to reach them, and whether
// they answer.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

const (
	dialTimeout = 500 * time.Millisecond // of one attempt to connect, whatever the caller's context
	// A connection without an answer for this long is given up by rueidis.
	connSilence = time.Second
	// Slots of a cluster are guarded by breakers in this many ranges: fine
	// enough that a lost master does not shut the others' slots out.
	clusterRanges = 64
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
	env  *Settings
	sets *telemetry.Node
	kept sync.Map // see Kept
	link
	faults

	telling sync.Mutex
	told    string // to the log, last
	toldAt  int64
}

// Endpoint is what fails and recovers as one: a standalone node, a Sentinel
// set, or a range of a cluster's slots.
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
	n := &Node{Name: s.Name, sets: telemetry.NewNode(s.Name), env: env}
	n.link.node, n.given, n.option = n, s.Client, safeOption(s.Option)
	return n
}

// Endpoint returns what serves a slot, connecting first if need be. It waits
// at most until ctx ends; an attempt to connect goes on without the caller.
func (n *Node) Endpoint(ctx context.Context, slot int) (*Endpoint, error) {
	if err := n.Connect(ctx); err != nil {
		return nil, err
	}
	return n.known(slot), nil
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

// because tells why a call was not sent: the cause first.
func because(cause, state error) error { return fmt.Errorf("%w (%w)", cause, state) }

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

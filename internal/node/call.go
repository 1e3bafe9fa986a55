package node

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Call is one script call under way to a node. Every one of them begins with Begin and ends with
// Finish: so the breaker, the metrics and the span hear of all.
type Call struct {
	Scripts *script.Endpoint // what carries it
	Sent    int64            // when it began, on the clock of the process
	Began   clock.Elapsed    // likewise

	about    telemetry.Call
	slot     int
	probes   bool // it looks whether the node is back, or answers at all
	unjudged bool // how it ends tells nothing of the node
	endpoint *Endpoint
	span     trace.Span
	release  func() // of its context; nil: there is nothing to release
}

// Begin begins a call to what serves a slot, connecting first if need be, at most until ctx ends.
// The context returned is that of the call.
func (n *Node) Begin(ctx context.Context, slot int, about telemetry.Call,
	links []trace.Link) (context.Context, Call, error) {
	if err := ctx.Err(); err != nil { // what is not sent any more must not count as a timeout of the node
		return ctx, Call{}, err
	}
	e, err := n.Endpoint(ctx, slot)
	if err != nil {
		return ctx, Call{}, err
	}
	ctx, c := e.begin(ctx, slot, about, links)
	if about.Operation == telemetry.Take { // it goes on for other callers, and ends with the process by itself
		return ctx, c, nil
	}
	// Otherwise whoever waits for a client that was given does not hear of Close.
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(n.env.Ctx, cancel)
	c.release = func() { stop(); cancel() }
	return ctx, c, nil
}

func (e *Endpoint) begin(ctx context.Context, slot int, about telemetry.Call,
	links []trace.Link) (context.Context, Call) {
	n := e.node
	about.Node = n.sets
	c := Call{Scripts: e.scripts, about: about, slot: slot, endpoint: e}
	ctx, c.span = n.env.Telemetry.Start(ctx, &c.about, links)
	now, asleep := n.env.Clock.Look()
	c.Sent, c.Began = now, clock.Elapsed(now+asleep)
	return ctx, c
}

// Finish ends the call, and returns when that was.
func (c *Call) Finish(ctx context.Context, err error) (received int64) {
	n := c.endpoint.node
	received = n.env.Clock.Now()
	if !c.unjudged {
		c.endpoint.report(c.slot, c.about.Operation, c.probes, err)
	}
	n.env.Telemetry.End(ctx, c.span, &c.about, time.Duration(received-c.Sent), err)
	if c.release != nil {
		c.release()
	}
	return received
}

// Heard notes what a call told of what serves a slot, beside that of the slot with which it began;
// or that it was given up because it did not even heed the end of its context. Then it may still
// come back, and Finish.
func (n *Node) Heard(slot int, err error) {
	if e := n.known(slot); e != nil {
		e.report(slot, telemetry.Take, false, err)
	}
}

// Together reports whether two slots fail and recover as one.
func (n *Node) Together(a, b int) bool { return n.known(a) == n.known(b) }

func isSilence(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Reachable is Ready, and has a node that is away looked at again if the pause since the last time
// is over: it connects, or asks in the background.
func (n *Node) Reachable(slot int) bool {
	if n.Ready(slot) {
		return true
	}
	e := n.known(slot)
	if e == nil {
		n.begin()
	} else if e.breaker.claimProbe(n.env.Clock.Now()) {
		n.env.Spawn(func(ctx context.Context) { e.look(ctx, slot) })
	}
	return false
}

// Serves looks whether the node carries out a call that writes, as takes do: nil, or why not. One
// that is away is asked only when it is time for that, though another look be under way: that has
// no answer yet, which tells nothing.
func (n *Node) Serves(ctx context.Context, slot int) error {
	return n.unlessAway(ctx, slot, func(b *breaker, now int64) bool {
		return b.ready() || b.claimProbe(now) || now >= b.probeAt.Load()
	})
}

// UnlessAway makes a call that is not sent to a node that is known to be away. If it is time for
// that, it looks first whether the node is back.
func (n *Node) UnlessAway(ctx context.Context, slot int, about telemetry.Call,
	do func(context.Context, *script.Endpoint) error) error {
	if err := n.unlessAway(ctx, slot, (*breaker).claimProbe); err != nil {
		return err
	}
	ctx, call, err := n.Begin(ctx, slot, about, nil)
	if err == nil {
		err = do(ctx, call.Scripts)
		call.Finish(ctx, err)
	}
	return err
}

// unlessAway returns why a call is not to be sent, nil if it is. It looks first if that is due.
func (n *Node) unlessAway(ctx context.Context, slot int, due func(*breaker, int64) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := n.Endpoint(ctx, slot)
	if err != nil {
		return err
	}
	if due(&e.breaker, n.env.Clock.Now()) {
		e.look(ctx, slot)
	}
	if !e.breaker.ready() {
		return n.Away(slot)
	}
	return ctx.Err()
}

// pinged are the slots of a cluster of which one must answer. Three, so that one of its masters can
// be away.
var pinged = [...]int{0, shard.Slots / 3, 2 * shard.Slots / 3}

// Ping reports whether the node answers a call that spends nothing: nil, or why not. Of a cluster
// it suffices that a part answers. One that is away is asked only when it is time to look whether
// it is back; else the answer is that of the last time.
func (n *Node) Ping(ctx context.Context) error {
	if err := n.Connect(ctx); err != nil {
		return err
	}
	slots := pinged[:1]
	if n.Spread() {
		slots = pinged[:]
	}
	answers := make(chan error, len(slots))
	for _, slot := range slots {
		go func() { // it looks at a shard that no limit has
			about := telemetry.Call{Operation: telemetry.Probe, Shard: shard.Tag(slot)}
			answers <- n.UnlessAway(ctx, slot, about, func(ctx context.Context, e *script.Endpoint) error {
				_, err := e.Peek(ctx, script.ShardKeys(n.env.Prefix, about.Shard, "ping"))
				return err
			})
		}()
	}
	var err error
	for range slots {
		if err = <-answers; err == nil {
			return nil
		}
	}
	return err
}

package node

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// report tells the breaker of an endpoint how a call to it ended. A call that was not sent in its
// time tells nothing.
func (n *Node) report(e *Endpoint, err error) {
	b := &e.breaker
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case err == nil || IsAnswer(err):
		if b.succeeded(n.env.Clock.Now()) {
			n.tell("node answers again", nil)
		}
	case late && script.NotExecuted(err) && b.ready():
	case late:
		if b.timedOut(n.env.Clock.Now()) {
			e.because(err)
			n.tell("node does not answer in time", err)
		}
	default:
		if b.broke(n.env.Clock.Now()) {
			e.because(err)
			what := "node is away"
			if _, said := script.Said(err); said {
				what = "node refuses calls"
			}
			n.tell(what, err)
		}
	}
}

// timed tells the pace of an endpoint how long a call to it took.
func (n *Node) timed(e *Endpoint, now int64, took time.Duration) {
	if e.pace.took(now, took, n.best) {
		n.env.Log.Warn("node answers late: calls go to others while these serve them", "node", n.Name, "took", took)
	}
}

// Lag tells a call for the slot whether the node answers it as fast as others do. Whoever gets
// Sample must send its call.
func (n *Node) Lag(slot int, now int64) Lag {
	if e := n.known(slot); e != nil {
		return e.pace.lag(now)
	}
	return InStep
}

// IsAnswer reports whether the error is what a server in good health says. A reply that makes no
// sense tells of the state that it came from, and not of the server.
func IsAnswer(err error) bool {
	if errors.Is(err, script.ErrForeignState) || errors.Is(err, script.ErrMalformedReply) {
		return true
	}
	text, ok := script.Said(err)
	for _, unfit := range []string{
		"LOADING", "CLUSTERDOWN", "MOVED", "READONLY", "MASTERDOWN", "BUSY", "NOREPLICAS", "OOM", "MISCONF",
		"NOAUTH", "WRONGPASS",
	} {
		ok = ok && !strings.HasPrefix(text, unfit)
	}
	return ok
}

// SilentFor is for how long nothing of the node has served a call of this process: 0 while any part
// of it may be asked. Nobody need have called meanwhile.
func (n *Node) SilentFor() time.Duration {
	now := n.env.Clock.Now()
	c := n.client.Load()
	if c == nil {
		return n.dialing.silentFor(now)
	}
	least := time.Duration(math.MaxInt64)
	for _, e := range c.ranges {
		least = min(least, e.breaker.silentFor(now))
	}
	return least
}

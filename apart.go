package shardlimit

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// alone holds the engines of a limit of Scope PerParticipant, one for each
// participant that this process answers for.
type alone struct {
	mine local.Engine // of the process itself

	mu     sync.Mutex
	others map[string]*local.Engine // those that the Client remembers; nil until there is one
}

// of returns the engine of a participant. One that was forgotten begins anew,
// with the whole limit: that is what any new name gets.
func (a *alone) of(c *Client, participant string) *local.Engine {
	if participant == c.cfg.Participant {
		return &a.mine
	}
	e := a.other(c, participant)
	c.visitors.Saw(a, participant)
	return e
}

func (a *alone) other(c *Client, participant string) *local.Engine {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := a.others[participant]
	if e == nil {
		if a.others == nil {
			a.others = make(map[string]*local.Engine)
		}
		e = &local.Engine{Clock: &c.clock}
		a.others[participant] = e
	}
	return e
}

// ForgetVisitor ends what is remembered of a participant.
func (a *alone) ForgetVisitor(participant string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.others, participant)
}

// close forgets every participant but the process itself.
func (a *alone) close(c *Client) {
	a.mu.Lock()
	names := slices.Collect(maps.Keys(a.others))
	a.mu.Unlock()
	for _, name := range names {
		c.visitors.Leave(a, name)
	}
}

// clear forgets what every participant used.
func (a *alone) clear() {
	a.mine.Clear()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.others {
		e.Clear()
	}
}

// apart decides a call on a limit of Scope PerParticipant. Redis is not asked,
// except in the background whether the limit was changed.
func (a *account) apart(limit *Limit, n int64, upTo bool, d *Decision) {
	c := a.core
	c.Refresh()
	d.Limit, d.source, d.core = limit.Permits, telemetry.Local, c
	decideHere(c.alone.of(c.client, a.name), d, *limit, n, upTo)
}

// peekApart is the state of a limit of Scope PerParticipant: that of the participant.
func (a *account) peekApart(limit Limit, epoch int64) State {
	c := a.core
	c.Refresh()
	p := c.alone.of(c.client, a.name).Peek(limit.here())
	st := State{
		Limit: limit, Epoch: epoch, Settled: true, Participants: c.record().Participants(),
		Used: p.Used, Remaining: p.Free, ResetAfter: p.Reset,
	}
	st.releases = forecast.Releases(p.Beside, p.Closed, 0, limit.most())
	if p.Free == 0 && len(st.releases) > 0 {
		st.RetryAfter = time.Duration(st.releases[0].At)
	}
	return st
}

// resetApart is Reset for a limit of Scope PerParticipant.
func (c *core) resetApart(ctx context.Context) error {
	switch {
	case c.invalid != nil:
		return c.invalid
	case c.client.closed.Load():
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	c.alone.clear()
	return nil
}

// here is the limit as an engine of this process enforces it.
func (l Limit) here() local.Limit {
	return local.Limit{Permits: l.Permits, Window: l.Per, Algorithm: l.Algorithm.inScripts(), Burst: l.Burst,
		Most: l.most(), Memory: l.memory()}
}

// decideHere has an engine of this process grant n permits of the limit: all or nothing, or up to
// n.
func decideHere(e *local.Engine, d *Decision, limit Limit, n int64, upTo bool) {
	g := e.Take(limit.here(), n, upTo)
	d.engine, d.ticket, d.until = e, g.Ticket, g.Until
	d.Allowed, d.Granted, d.Delay = g.Granted > 0, g.Granted, g.Delay
	d.Remaining, d.ResetAfter = g.Free, g.Reset
	d.first = lane.Part{At: g.At, N: g.Granted}
	if !d.Allowed {
		d.RetryAfter = max(g.Retry, minRetry)
		if g.Retry < 0 { // more than there will ever be
			d.RetryAfter = limit.Per
		}
	}
}

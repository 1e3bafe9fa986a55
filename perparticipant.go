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

// perParticipant holds the engines of a limit of Scope PerParticipant, one for each
// participant that this process answers for.
type perParticipant struct {
	mine local.Engine // of the process itself

	mu     sync.Mutex
	others map[string]*local.Engine // those that the Client remembers; nil until there is one
}

// of returns the engine of a participant. One that was forgotten begins anew,
// with the whole limit: that is what any new name gets.
func (p *perParticipant) of(c *Client, participant string) *local.Engine {
	if participant == c.cfg.Participant {
		return &p.mine
	}
	e := p.other(c, participant)
	c.visitors.Saw(p, participant)
	return e
}

func (p *perParticipant) other(c *Client, participant string) *local.Engine {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.others[participant]
	if e == nil {
		if p.others == nil {
			p.others = make(map[string]*local.Engine)
		}
		e = &local.Engine{Clock: &c.clock}
		p.others[participant] = e
	}
	return e
}

// ForgetVisitor ends what is remembered of a participant.
func (p *perParticipant) ForgetVisitor(participant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.others, participant)
}

// close forgets every participant but the process itself.
func (p *perParticipant) close(c *Client) {
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.others))
	p.mu.Unlock()
	for _, name := range names {
		c.visitors.Leave(p, name)
	}
}

// clear forgets what every participant used.
func (p *perParticipant) clear() {
	p.mine.Clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.others {
		e.Clear()
	}
}

// decidePerParticipant decides a call on a limit of Scope PerParticipant. Redis is not asked,
// except in the background whether the limit was changed.
func (m *member) decidePerParticipant(limit *Limit, n int64, upTo bool, d *Decision) {
	c := m.core
	c.Refresh()
	d.Limit, d.source, d.core = limit.Permits, telemetry.Local, c
	decideHere(c.rare().perParticipant.of(c.client, m.name), d, *limit, n, upTo)
}

// peekPerParticipant is the state of a limit of Scope PerParticipant: that of the participant.
func (m *member) peekPerParticipant(limit Limit, epoch int64) State {
	c := m.core
	c.Refresh()
	p := c.rare().perParticipant.of(c.client, m.name).Peek(limit.here())
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

// resetPerParticipant is Reset for a limit of Scope PerParticipant.
func (c *core) resetPerParticipant(ctx context.Context) error {
	switch {
	case c.invalid != nil:
		return c.invalid
	case c.client.closed.Load():
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	c.rare().perParticipant.clear()
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

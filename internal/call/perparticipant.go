package call

import (
	"cmp"
	"context"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// alone returns what decides for the participant in a limit of Scope PerParticipant.
func (m *Member) alone() *local.Engine {
	return made(&m.engine, func() *local.Engine { return &local.Engine{Clock: &m.Target.Process.Clock} })
}

// decidePerParticipant decides a call on a limit of Scope PerParticipant. Redis is not asked,
// except in the background whether the limit was changed.
func decidePerParticipant(m *Member, limit *limit.Limit, n int64, upTo bool, d *Decision) {
	c := m.Target
	c.Refresh()
	d.Limit, d.Source, d.Target = limit.Permits, telemetry.Local, c
	decideHere(m.alone(), d, *limit, n, upTo)
}

// Own returns what the participant has used of a limit of Scope PerParticipant.
func (m *Member) Own(limit *limit.Limit) local.State { return m.alone().Peek(limit.Local()) }

// peekPerParticipant returns the state of a limit of Scope PerParticipant: that of the participant.
func peekPerParticipant(m *Member, r *limit.Routes) (st State) {
	c := m.Target
	c.Refresh()
	if r != nil {
		st.Epoch = r.Layout.Epoch
	}
	st.Limit, st.Settled, st.Participants = *c.LimitOf(r), true, c.Record().Participants.Load()
	p := m.Own(&st.Limit)
	st.Used, st.Remaining, st.ResetAfter, st.RetryAfter = p.Used, p.Free, p.Reset, p.Retry
	return st
}

// resetPerParticipant does what Reset does, for a limit of Scope PerParticipant.
func resetPerParticipant(ctx context.Context, c *Target) error {
	if err := cmp.Or(c.Invalid, c.Process.Gone(ctx, nil)); err != nil {
		return err
	}
	for _, m := range c.Members.all() {
		m.alone().Clear()
	}
	return nil
}

// decideHere has an engine of this process grant n permits of the limit: all or nothing, or up to
// n.
func decideHere(e *local.Engine, d *Decision, limit limit.Limit, n int64, upTo bool) {
	g := e.Take(limit.Local(), n, upTo)
	d.special = &special{engine: e, era: g.Era}
	d.Allowed, d.Granted, d.Delay = g.Granted > 0, g.Granted, g.Delay
	d.Remaining, d.ResetAfter = g.Free, g.Reset
	// No shard's time: the engine alone reads it.
	d.first = dispatch.Part{At: clock.ServerTime(g.At), N: g.Granted}
	if now := e.Clock.Now(); g.Delay > 0 {
		d.first.First, d.first.Last = now+int64(g.First), now+int64(g.Delay)
	}
	if !d.Allowed {
		d.Reason, d.RetryAfter = telemetry.Full, max(g.Retry, minRetry)
		if g.Owes {
			d.Reason = telemetry.Owes
		}
		if g.Retry < 0 { // more than there will ever be
			d.RetryAfter = limit.Per
		}
	}
}

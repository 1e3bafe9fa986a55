package shardlimit

import (
	"math/bits"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// outage answers a call that no shard answered. r is nil if the limit could not
// be declared yet; cause is nil if no shard was asked.
func (m *member) outage(r *routes, n int64, upTo bool, cause error) (Decision, error) {
	c := m.core
	if c.client.closed.Load() {
		return Decision{}, ErrClosed
	}
	limit := c.limitOf(r)
	if limit.Scope == PerParticipant {
		var d Decision
		m.decidePerParticipant(&limit, n, upTo, &d)
		return d, nil
	}
	d := Decision{Limit: limit.Permits, Degraded: true, source: telemetry.Local, core: c}
	switch c.client.cfg.OnOutage {
	case FailOpen:
		d.Allowed, d.Granted = true, n
		return d, nil
	case FailLocal:
		decideHere(&c.rare().own, &d, c.ownPart(limit), n, upTo)
		return d, nil
	}
	switch {
	case cause != nil:
	case r == nil:
		cause = c.record().Absence()
	default:
		cause = r.absence()
	}
	if cause == lane.ErrOverloaded { //nolint:errorlint // as a rule it is not wrapped; such errors are many
		return Decision{}, errOverloaded
	}
	return Decision{}, register.Unavailable(cause)
}

// answered returns how a call ends for its caller, by the outage policy and the limit's mode. The
// policy answers, too, if every shard that can be reached has lost its memory: to a caller who is
// to pass in an outage that is no different. Else a refusal stands, which tells when to come again.
func (m *member) answered(n int64, upTo bool, d *Decision, err error) error {
	c := m.core
	if policy := c.client.cfg.OnOutage; d.Granted == 0 && (policy == FailOpen || policy == FailLocal) &&
		err == nil && !d.Degraded && d.mode == Enforced {
		if r := c.routes.Load(); r != nil && m.view(r).closed(c.client.now()) {
			*d, err = m.outage(r, n, upTo, nil)
		}
	}
	return c.shadowed(d, n, err)
}

// closed reports whether every shard that can be reached has lost its memory, and one can.
func (v *view) closed(now int64) (all bool) {
	for _, s := range v.visit {
		if s.Lane.Usable() {
			if all = s.Lane.Closed(now); !all {
				return false
			}
		}
	}
	return all
}

// errOverloaded is what callers see of a call that was shed.
var errOverloaded = register.Unavailable(lane.ErrOverloaded)

// absence tells why no shard was asked: the nodes are away, or the key moves.
func (r *routes) absence() error {
	if r.closed != nil {
		return r.closed
	}
	for _, l := range r.lanes {
		if !l.Node.Ready(l.Slot) {
			return l.Fail(l.Node.Away(l.Slot))
		}
	}
	return nil
}

// ownPart is what this process may admit: the limit divided by the participants last
// heard of, or by those that are expected if these are more, at least one permit.
func (c *core) ownPart(limit Limit) Limit {
	return limit.dividedBy(max(c.record().Participants(), c.client.cfg.Participants))
}

// dividedBy is the part of the limit that each of so many participants has, at least one permit.
// Its burst takes no longer to fill than that of the limit: of permits that do not divide evenly a
// part has less, and would fill more slowly than a log allows.
func (l Limit) dividedBy(participants int64) Limit {
	whole := l.Permits
	l.Permits = max(1, whole/participants)
	if l.Burst > 0 {
		high, low := bits.Mul64(uint64(l.Burst), uint64(l.Permits))
		inProportion, _ := bits.Div64(high, low, uint64(whole))
		l.Burst = max(1, min(l.Burst/participants, int64(inProportion)))
	}
	return l
}

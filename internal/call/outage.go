package call

import (
	"context"
	"errors"
	"slices"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// outage answers a call that no shard answered. r is nil if the limit could not
// be declared yet; cause is nil if no shard was asked.
func (m *Member) outage(r *limit.Routes, n int64, upTo bool, cause error) (Decision, error) {
	c := m.Target
	if c.Process.Closed.Load() {
		return Decision{}, limit.ErrClosed
	}
	of := c.LimitOf(r)
	if cause != dispatch.ErrOverloaded { //nolint:errorlint // as a rule it is not wrapped; such errors are many
		if err := mistaken(c, r, cause); err != nil {
			return Decision{}, err // no policy hides what waiting does not change
		}
	}
	d := Decision{Answer{Limit: of.Permits, Degraded: true}, Origin{Source: telemetry.Local, Target: c}}
	switch c.Process.Config.OnOutage {
	case limit.FailOpen:
		d.Allowed, d.Granted = true, n
		return d, nil
	case limit.FailLocal:
		if decideHere(&c.rare().own, &d, c.OwnPart(*of), n, upTo); !d.Allowed {
			d.Reason = telemetry.Outage
		}
		return d, nil
	}
	switch {
	case cause != nil:
	case r == nil:
		cause = c.Record().Absence()
	default:
		cause = c.Absence(r)
	}
	if cause == dispatch.ErrOverloaded { //nolint:errorlint // as a rule it is not wrapped; such errors are many
		return Decision{}, errOverloaded
	}
	return Decision{}, register.Unavailable(cause)
}

// Hint has a caller who was denied by the outage policy come again when a node may answer; one that
// waits, also where only some nodes are away.
func (d *Decision) Hint(waits bool) {
	if d.Degraded || waits && d.Reason == telemetry.Outage {
		d.RetryAfter = min(d.RetryAfter, node.BreakerMaxPause)
	}
}

// mistaken returns what is wrong with the Config, if that keeps a call that failed so from every
// shard of the limit, or from its record.
func mistaken(c *Target, r *limit.Routes, cause error) error {
	if r == nil || len(r.Shards) == 0 || dispatch.Unconfirmed(cause) {
		return c.Process.Mistaken()
	}
	var few [8]*node.Node
	nodes := few[:0]
	for _, sh := range r.Shards {
		if !slices.Contains(nodes, sh.Node) {
			nodes = append(nodes, sh.Node)
		}
	}
	return node.Mistaken(nodes, func(n *node.Node) error {
		if cause != nil && len(nodes) == 1 {
			return cause
		}
		for _, sh := range r.Shards {
			if sh.Node != n {
				continue
			}
			if err := n.Refusal(sh.Slot); err != nil {
				return err
			}
		}
		return nil
	})
}

// answered returns how a call ends for its caller, by the outage policy and the limit's mode. The
// policy answers, too, if every shard that can be reached has lost its memory: to a caller who is
// to pass in an outage that is no different. Else a refusal stands, which tells when to come again.
func (m *Member) answered(n int64, upTo bool, d *Decision, err error) error {
	c := m.Target
	if policy := c.Process.Config.OnOutage; d.Granted == 0 && (policy == limit.FailOpen || policy == limit.FailLocal) &&
		err == nil && !d.Degraded && d.Mode == limit.Enforced {
		if r := c.Routes.Load(); r != nil && m.View(r).closed(c.Process.Now()) {
			*d, err = m.outage(r, n, upTo, nil)
		}
	}
	if c.LimitOf(c.Routes.Load()).Mode == limit.Shadow {
		err = shadowed(c, d, n, err)
	}
	return err
}

// closed reports whether every shard that can be reached has lost its memory, and one can.
func (v *view) closed(now int64) (all bool) {
	for _, acc := range v.accounts {
		if acc.Shard.Usable() {
			if all = acc.Shard.Known.Closed(now); !all {
				return false
			}
		}
	}
	return all
}

// errOverloaded is what callers see of a call that was shed.
var errOverloaded = register.Unavailable(dispatch.ErrOverloaded)

// Crowded returns the account at which a call would be shed, as at every other that it could go to;
// nil: it would not be, or some outage policy might grant it.
func (v *view) Crowded(now int64) (at *dispatch.Account) {
	policy := v.member.Target.Process.Config.OnOutage
	if v.Limit.Mode != limit.Enforced || v.Limit.Lease > 0 || policy == limit.FailOpen || policy == limit.FailLocal {
		return nil
	}
	for _, at = range v.accounts {
		if at.Shut(now) || at.Shard.Unanswered.Load() > 0 || !at.Crowded(now) { // it may join others
			return nil
		}
	}
	return at
}

// Shed ends a call that cannot be answered in time: the process does nothing for it but let it
// wait. at is where it is crowded; nil: it was asked.
func Shed(ctx context.Context, c *Target, at *dispatch.Account, n, since int64, d *Decision) error {
	if at != nil {
		at.Shed(c.Process.Now())
	}
	err := park(ctx, c, since)
	if err == nil {
		err = errOverloaded
	}
	c.decided(ctx, d, n, since, err)
	return err
}

// byMode decides a call where its limit's mode does so without asking anybody.
func byMode(c *Target, r *limit.Routes, n int64, upTo bool, d *Decision) (decided bool) {
	mode := c.LimitOf(r).Mode
	if mode == limit.Enforced || mode == limit.Shadow && (upTo || n <= c.LimitOf(r).Most()) {
		return false
	}
	c.Refresh() // no shard tells of a change
	permits := c.LimitOf(r).Permits
	*d = Decision{Answer{Limit: permits}, Origin{Source: telemetry.Local, Target: c, Mode: mode}}
	switch mode {
	case limit.Closed:
		d.RetryAfter, d.Reason = limit.HeardAfter, telemetry.Closed
	case limit.Off:
		d.Remaining = permits
		fallthrough
	default:
		d.Allowed, d.Granted, d.Shadowed = true, n, mode == limit.Shadow
	}
	return true
}

// shadowed makes of a call that ended so what a limit in Shadow mode answers.
func shadowed(c *Target, d *Decision, n int64, err error) error {
	if err == nil && d.Granted == n && d.Delay == 0 {
		d.Mode = limit.Shadow
		return nil
	}
	away := errors.Is(err, limit.ErrUnavailable) || errors.As(err, new(*node.Mistakes))
	if err != nil && !away && !errors.Is(err, limit.ErrExceedsLimit) {
		return err
	}
	if err != nil {
		*d = Decision{Answer{Limit: c.LimitNow().Permits, Degraded: away}, Origin{Source: telemetry.Local, Target: c}}
	}
	d.Mode, d.Allowed, d.Granted, d.Shadowed, d.Delay, d.RetryAfter = limit.Shadow, true, n, true, 0, 0
	d.Reason = 0
	return nil
}

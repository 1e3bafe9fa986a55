package call

import (
	"errors"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

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

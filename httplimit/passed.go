package httplimit

import (
	"context"
	"log/slog"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// passedKey is the key under which a context holds what its request passed.
type passedKey struct{}

// DecisionOf returns the decision that let a request pass, of the innermost
// middleware of this package, and false if there was none: no limiter was chosen, or the request
// cost nothing.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	return adapter.DecisionOf(ctx, passedKey{})
}

// Settle makes what the request took what it turned out to cost, of every middleware of this
// package that it passed: 0 for a handler that found that the work was not done, more than it took
// for one that did more. ctx is that of the request; that its client has gone does not keep it from
// working, and it takes at most Config.CallTimeout for each middleware. It works once, and does
// nothing with a request that took nothing. Errors are those of Limiter.Settle, and
// errors.ErrUnsupported of a Limiter of one's own that cannot settle.
func Settle(ctx context.Context, used int64) error {
	return adapter.Settle(ctx, passedKey{}, used)
}

// Denial is a request that was refused, or would have been were its limit not in Shadow. It has no
// key of the client, which may be a secret; OnDenied has the request.
type Denial struct {
	Policy   string // Options.Policy
	Cost     int64  // permits that were asked for
	Decision shardlimit.Decision
}

// LogValue is the denial as a group for log/slog; times are durations.
func (d Denial) LogValue() slog.Value {
	return slog.GroupValue(slog.String("policy", d.Policy), slog.Int64("cost", d.Cost),
		slog.Int64("limit", d.Decision.Limit), slog.Int64("remaining", d.Decision.Remaining),
		slog.Duration("retry_after", d.Decision.RetryAfter), slog.Bool("degraded", d.Decision.Degraded),
		slog.Bool("shadowed", d.Decision.Shadowed), slog.String("reason", d.Decision.Reason.String()))
}

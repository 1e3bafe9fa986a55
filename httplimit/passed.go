package httplimit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/shardlimit/shardlimit"
)

// passed is the context of a request that passed a middleware.
type passed struct {
	context.Context
	limiter  Limiter
	decision shardlimit.Decision
}

type passedKey struct{}

// Value finds the innermost middleware that the request passed, and what others have put there.
func (p *passed) Value(key any) any {
	if key == (passedKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// DecisionOf returns the decision that let a request pass, of the innermost
// middleware of this package, and false if there was none: no limiter was chosen, or the request
// cost nothing. In shadow it may be a denial.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	p, ok := ctx.Value(passedKey{}).(*passed)
	if !ok {
		return shardlimit.Decision{}, false
	}
	return p.decision, true
}

// Settle makes what the request took what it turned out to cost, of every middleware of this
// package that it passed: 0 for a handler that found that the work was not done, more than it took
// for one that did more. ctx is that of the request; that its client has gone does not keep it from
// working, and it takes at most Config.CallTimeout for each middleware. It works once, and does
// nothing with a request that took nothing. Errors are those of Limiter.Settle, and
// errors.ErrUnsupported of a Limiter of one's own that cannot settle.
func Settle(ctx context.Context, used int64) error {
	var errs []error
	for p, ok := ctx.Value(passedKey{}).(*passed); ok; p, ok = p.Context.Value(passedKey{}).(*passed) {
		errs = append(errs, p.settle(ctx, used))
	}
	return errors.Join(errs...)
}

// settle settles what the request took of one middleware.
func (p *passed) settle(ctx context.Context, used int64) error {
	if p.decision.Granted == 0 {
		return nil
	}
	l, can := p.limiter.(interface {
		Settle(ctx context.Context, d shardlimit.Decision, used int64) error
	})
	if !can {
		return errors.ErrUnsupported
	}
	return l.Settle(ctx, p.decision, used)
}

// backWithin bounds how long a request waits until what it took is back, whatever its limiter does.
const backWithin = time.Second

// giveBack is settle with 0 for a request that has ended. What does not come back leaves the window
// in time.
func (p *passed) giveBack() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Context), backWithin)
	defer cancel()
	_ = p.settle(ctx, 0)
}

// Denial is a request that was refused, or would have been if it were not for Options.Shadow. It
// has no key of the client, which may be a secret; OnDenied has the request.
type Denial struct {
	Policy   string // Options.Policy
	Cost     int64  // permits that were asked for
	Shadow   bool   // it passed nevertheless
	Decision shardlimit.Decision
}

// LogValue is the denial as a group for log/slog; times are durations.
func (d Denial) LogValue() slog.Value {
	return slog.GroupValue(slog.String("policy", d.Policy), slog.Int64("cost", d.Cost),
		slog.Int64("limit", d.Decision.Limit), slog.Int64("remaining", d.Decision.Remaining),
		slog.Duration("retry_after", d.Decision.RetryAfter), slog.Bool("degraded", d.Decision.Degraded),
		slog.Bool("shadow", d.Shadow), slog.String("reason", d.Decision.Reason.String()))
}

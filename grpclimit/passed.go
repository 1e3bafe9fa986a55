package grpclimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit"
)

// refunder takes back what was granted. *shardlimit.Limiter, *shardlimit.Set and *Policies do.
type refunder interface {
	Refund(ctx context.Context, d shardlimit.Decision) error
}

// passed is the context of a call that passed a limit.
type passed struct {
	context.Context
	limiter  Limiter
	decision shardlimit.Decision
}

type passedKey struct{}

// Value finds the innermost limit that the call passed, and what others have put there.
func (p *passed) Value(key any) any {
	if key == (passedKey{}) {
		return p
	}
	return p.Context.Value(key)
}

// DecisionOf returns the decision that let a call pass, of the innermost limit of this package, and
// false if there was none: no limiter was chosen, or the call cost nothing. In shadow it may be a
// denial.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	p, ok := ctx.Value(passedKey{}).(*passed)
	if !ok {
		return shardlimit.Decision{}, false
	}
	return p.decision, true
}

// Refund gives back what the call took, of every limit of this package that it passed, for a
// handler that found that the work was not done. Of a stream it is what the begin took, not its
// messages. ctx is that of the call; that its client has gone does not keep it from working, and it
// takes at most Config.CallTimeout for each limit. It works once: more often it does nothing, as
// with a call that took nothing. Errors are those of Limiter.Refund, and errors.ErrUnsupported
// of a Limiter of one's own that has none.
func Refund(ctx context.Context) error {
	var errs []error
	for p, ok := ctx.Value(passedKey{}).(*passed); ok; p, ok = p.Context.Value(passedKey{}).(*passed) {
		errs = append(errs, p.refund(ctx))
	}
	return errors.Join(errs...)
}

// refund gives back what the call took of one limit.
func (p *passed) refund(ctx context.Context) error {
	if p.decision.Granted == 0 {
		return nil
	}
	l, can := p.limiter.(refunder)
	if !can {
		return errors.ErrUnsupported
	}
	return l.Refund(context.WithoutCancel(ctx), p.decision)
}

// backWithin bounds how long a call waits until what it took is back, whatever its limiter does.
const backWithin = time.Second

// giveBack gives back what a call took that was not made, or not served. What does not come back
// leaves the window in time.
func giveBack(ctx context.Context, l refunder, d shardlimit.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	_ = l.Refund(ctx, d)
}

package grpclimit

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit"
)

// settler settles what was granted. *shardlimit.Limiter and *Policies do.
type settler interface {
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
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

// Settle makes what the call took what it turned out to cost, of every limit of this package that
// it passed: 0 for a handler that found that the work was not done, more than it took for one that
// did more. Of a stream it is what the begin took, not its messages. ctx is that of the call; that
// its client has gone does not keep it from working, and it takes at most Config.CallTimeout for
// each limit. It works once, and does nothing with a call that took nothing. Errors are those of
// Limiter.Settle, and errors.ErrUnsupported of a Limiter of one's own that cannot settle.
func Settle(ctx context.Context, used int64) error {
	var errs []error
	for p, ok := ctx.Value(passedKey{}).(*passed); ok; p, ok = p.Context.Value(passedKey{}).(*passed) {
		errs = append(errs, p.settle(ctx, used))
	}
	return errors.Join(errs...)
}

// settle settles what the call took of one limit.
func (p *passed) settle(ctx context.Context, used int64) error {
	if p.decision.Granted == 0 {
		return nil
	}
	l, can := p.limiter.(settler)
	if !can {
		return errors.ErrUnsupported
	}
	return l.Settle(ctx, p.decision, used)
}

// backWithin bounds how long a call waits until what it took is back, whatever its limiter does.
const backWithin = time.Second

// giveBack gives back what a call took that was not made, or not served. What does not come back
// leaves the window in time.
func giveBack(ctx context.Context, l settler, d shardlimit.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	_ = l.Settle(ctx, d, 0)
}

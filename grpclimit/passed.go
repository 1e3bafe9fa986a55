package grpclimit

import (
	"context"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// passedKey is the key under which a context holds what its call passed.
type passedKey struct{}

// DecisionOf returns the decision that let a call pass, of the innermost limit of this package, and
// false if there was none: no limiter was chosen, or the call cost nothing. It is Shadowed if only
// the mode of the limit let the call pass. Client.OnRefusal of shardlimit hears of calls that are
// refused.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	return adapter.DecisionOf(ctx, passedKey{})
}

// Settle makes what the call took what it turned out to cost, of every limit of this package that
// it passed: 0 for a handler that found that the work was not done, more than it took for one that
// did more. Of a stream it is what the begin took, not its messages. ctx is that of the call; that
// its client has gone does not keep it from working, and it takes at most Config.CallTimeout for
// each limit. It works once, and does nothing with a call that took nothing. Errors are those of
// Limiter.Settle.
func Settle(ctx context.Context, used int64) error {
	return adapter.Settle(ctx, passedKey{}, used)
}

package httplimit

import (
	"context"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// passedKey is the key under which a context holds what its request passed.
type passedKey struct{}

// DecisionOf returns the decision that let a request pass, of the innermost middleware of this
// package, and false if there was none: no limiter was chosen, or the request cost nothing. It is
// Shadowed if only the mode of the limit let the request pass. Client.OnRefusal hears of requests
// that are refused.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	return adapter.DecisionOf(ctx, passedKey{})
}

// Settle makes what the request took what it turned out to cost, of every middleware of this
// package that it passed: 0 for a handler that found that the work was not done, more than it took
// for one that did more. ctx is that of the request; that its client has gone does not keep it from
// working, and it takes at most Config.CallTimeout for each middleware. It works once, and does
// nothing with a request that took nothing. Errors are those of Limiter.Settle.
func Settle(ctx context.Context, used int64) error {
	return adapter.Settle(ctx, passedKey{}, used)
}

// Package adapter is what httplimit and grpclimit have in common: keys, how a request passes a
// limit, what becomes of what it took, and how clients are held.
package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/clock"
)

// Settler is what granted permits.
type Settler interface {
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
}

// Limiter decides about requests.
type Limiter interface {
	Settler
	AllowN(ctx context.Context, n int64) (shardlimit.Decision, error)
}

// Passed is the context of a request that passed a limit of an adapter.
type Passed struct {
	context.Context
	Key      any // of the adapter: a value of a type of its own
	Limiter  Limiter
	Decision shardlimit.Decision
}

// Pass asks a limiter of the adapter that has the key for what a request costs, and waits for its
// turn; one that ends before gives back what it took. The request passed if its Decision says so
// and there is no error.
func Pass(ctx context.Context, key any, limiter Limiter, cost int64) (*Passed, error) {
	d, err := limiter.AllowN(ctx, cost)
	if err != nil {
		return nil, err
	}
	if d.Allowed && d.Delay > 0 && !clock.Sleep(ctx, d.Delay) {
		GiveBack(ctx, limiter, d)
		return nil, context.Cause(ctx)
	}
	return &Passed{Context: ctx, Key: key, Limiter: limiter, Decision: d}, nil
}

// Value finds the innermost limit that the request passed, and what others have put there.
func (p *Passed) Value(key any) any {
	if key == p.Key {
		return p
	}
	return p.Context.Value(key)
}

// DecisionOf returns the decision of the innermost limit of the adapter that has the key, and false
// if there was none.
func DecisionOf(ctx context.Context, key any) (shardlimit.Decision, bool) {
	p, ok := ctx.Value(key).(*Passed)
	if !ok {
		return shardlimit.Decision{}, false
	}
	return p.Decision, true
}

// Settle makes what the request took what it turned out to cost, of every limit of the adapter that
// has the key.
func Settle(ctx context.Context, key any, used int64) error {
	var errs []error
	for p, ok := ctx.Value(key).(*Passed); ok; p, ok = p.Context.Value(key).(*Passed) {
		if p.Decision.Granted > 0 {
			errs = append(errs, p.Limiter.Settle(ctx, p.Decision, used))
		}
	}
	return errors.Join(errs...)
}

// backWithin bounds how long a request waits until what it took is back, whatever its limiter does.
const backWithin = time.Second

// GiveBack settles a decision with 0, for a request that was cut short or never made. Permits that
// do not come back leave the window in time.
func GiveBack(ctx context.Context, from Settler, d shardlimit.Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backWithin)
	defer cancel()
	_ = from.Settle(ctx, d, 0)
}

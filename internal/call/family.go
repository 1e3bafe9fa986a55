package call

import (
	"context"
	"strconv"
	"sync/atomic"
	"unique"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// Family is one limit for each of many keys.
type Family struct {
	limit.Family
	Target *Target // holds the declaration; has no permits of its own
	keys   keys
	slots  atomic.Pointer[Limiter] // see Client.Slots
}

// newFamily returns the family whose declaration the target holds.
func newFamily(t *Target, keys int) *Family {
	f := &Family{Target: t}
	f.Of = &t.Core
	f.keys.prefix = "k" + strconv.Itoa(len(t.Name)) + ":" + t.Name + ":"
	f.keys.remember(keys)
	return f
}

// SetLimit changes the limit of every key whose calls bring none.
func (f *Family) SetLimit(ctx context.Context, to limit.Limit) error {
	if err := f.Target.Process.Gone(ctx, nil); err != nil {
		return err
	}
	to, err := to.ForKeys()
	if err != nil {
		return err
	}
	return f.Target.Process.Plainly(f.Target.Register.Change(ctx, to.Wanted()))
}

// changed has those who wait for keys begin anew: the family has another limit, or other nodes.
func (f *Family) changed() {
	for _, key := range f.keys.all(true) {
		key.Freed(true)
	}
}

// Limiter returns the limiter of one key.
func (f *Family) Limiter(key string) Limiter {
	return Limiter{Target: f.Target, family: f, key: limit.Keyed{Key: key}}
}

// LimiterWith returns the limiter of a key whose limit comes with the calls.
func (f *Family) LimiterWith(key string, with limit.Limit) Limiter {
	came, err := f.Terms(with)
	return Limiter{Target: f.Target, family: f, key: limit.Keyed{Key: key, Came: unique.Make(came)}, invalid: err}
}

// Rebalance places the keys anew over the nodes that do not drain.
func (f *Family) Rebalance(ctx context.Context) error {
	all := f.Target.Limiter()
	return all.Rebalance(ctx)
}

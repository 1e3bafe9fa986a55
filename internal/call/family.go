package call

import (
	"context"
	"strconv"
	"sync/atomic"
	"unique"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/shard"
)

// Family is one limit for each of many keys.
type Family struct {
	limit.Family
	target *Target // holds the declaration; has no permits of its own
	keys   keys
	// Where keys of each region of the slots were last that had nothing free.
	places [shard.KeySlots]atomic.Pointer[keyPlace]
}

// Family declares or joins a limit that holds for every key by itself.
func (c *Client) Family(ctx context.Context, name string, declared limit.Limit) (*Family, error) {
	if err := limit.CheckName("name", name); err != nil {
		return nil, err
	}
	if err := declared.Validate(); err != nil {
		return nil, err
	}
	declared, err := declared.ForKeys()
	if err != nil {
		return nil, err
	}
	f, err := c.family(name, declared)
	if err != nil {
		return nil, err
	}
	if err := f.target.Join(ctx, declared); err != nil {
		return nil, err
	}
	f.target.Overruled(declared, f.target.LimitNow())
	return f, nil
}

// OpenFamily joins a family that is stored already.
func (c *Client) OpenFamily(ctx context.Context, name string) (*Family, error) {
	f, err := open(ctx, c, name, true, c.families, c.family)
	if err != nil {
		return nil, err
	}
	return f, f.target.Join(ctx, f.target.Declaration())
}

func (c *Client) family(name string, declared limit.Limit) (*Family, error) {
	c.known.Lock()
	defer c.known.Unlock()
	if c.Closed.Load() {
		return nil, limit.ErrClosed
	}
	if f := c.families[name]; f != nil {
		return f, nil
	}
	f := &Family{target: newTarget(c.Process, name, "f:"+name, declared)}
	f.Of = &f.target.Core
	f.keys.prefix = "k" + strconv.Itoa(len(name)) + ":" + name + ":"
	f.keys.remember(c.FamilyKeys)
	f.target.Metrics = telemetry.NewLimiter(name, declared.Algorithm.String())
	f.target.Enlist(true)
	c.families[name] = f
	return f, nil
}

// Name returns the name the family was declared under.
func (f *Family) Name() string { return f.target.Name }

// Limit returns the limit in force for each key, as far as this process has heard.
func (f *Family) Limit() limit.Limit {
	return f.target.LimitNow()
}

// SetLimit changes the limit of every key whose calls bring none.
func (f *Family) SetLimit(ctx context.Context, to limit.Limit) error {
	if f.target.Process.Closed.Load() {
		return limit.ErrClosed
	}
	if err := to.Validate(); err != nil {
		return err
	}
	to, err := to.ForKeys()
	if err != nil {
		return err
	}
	return f.target.Process.Plainly(f.target.Register.Change(ctx, to.Wanted()))
}

// Limiter returns the limiter of one key.
func (f *Family) Limiter(key string) Limiter {
	return Limiter{Target: f.target, family: f, key: limit.Keyed{Key: key}}
}

// LimiterWith returns the limiter of a key whose limit comes with the calls.
func (f *Family) LimiterWith(key string, with limit.Limit) Limiter {
	came, err := f.Terms(with)
	return Limiter{Target: f.target, family: f, key: limit.Keyed{Key: key, Came: unique.Make(came)}, invalid: err}
}

// Rebalance places the keys anew over the nodes that do not drain.
func (f *Family) Rebalance(ctx context.Context) error {
	if f.target.Process.Closed.Load() {
		return limit.ErrClosed
	}
	return f.target.Process.Plainly(f.target.Register.Rebalance(ctx))
}

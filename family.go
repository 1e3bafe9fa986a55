package shardlimit

import (
	"context"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/shardlimit/shardlimit/internal/memory"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// Family is one limit for each of many keys: users, addresses, API keys. All
// keys share the declaration; each has its own permits. It is safe for
// concurrent use.
type Family struct {
	core *core // holds the declaration; has no permits of its own
	keys *memory.Keys[*core]

	plans     keyPlans
	proposals *lru.Cache[script.Terms, *script.Proposal] // all keys propose the same few
}

// familyProposals is how many proposals are remembered, so that the many keys share them.
const familyProposals = 256

// Family declares or joins a limit that holds for every key by itself, under
// the rules of Client.Limiter. With Shards 0 each key has one shard; the keys
// spread over the nodes. How many shards a key has cannot be changed later; a
// declaration with a higher Revision, or SetLimit, changes the rest.
func (c *Client) Family(ctx context.Context, name string, limit Limit) (*Family, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if err := limit.validate(); err != nil {
		return nil, err
	}
	limit.Shards = max(limit.Shards, 1)
	f, err := c.family(name, limit)
	if err != nil {
		return nil, err
	}
	if err := f.core.join(ctx, limit); err != nil {
		return nil, ownError(f, err)
	}
	f.core.overruled(limit, f.core.limitNow())
	return f, nil
}

// OpenFamily returns a handle on a family that is stored already, without declaring anything.
// Errors are those of Open.
func (c *Client) OpenFamily(ctx context.Context, name string) (*Family, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, ErrClosed
	}
	c.mu.Lock()
	f := c.families[name]
	c.mu.Unlock()
	if f == nil {
		limit, err := c.stored(ctx, name, true)
		if err != nil {
			return nil, err
		}
		if f, err = c.family(name, limit); err != nil {
			return nil, err
		}
	}
	return f, f.core.join(ctx, f.core.declaration())
}

func (c *Client) family(name string, limit Limit) (*Family, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if f := c.families[name]; f != nil {
		return f, nil
	}
	keys, err := memory.NewKeys(c.familyKeys, func(c *core) {
		c.members.close()
		if r := c.seldom.Load(); r != nil {
			for _, name := range r.perParticipant.Others() {
				c.client.visitors.Leave(&r.perParticipant, name)
			}
		}
	})
	if err != nil {
		return nil, errors.Join(ErrInvalidConfig, err)
	}
	proposals, err := lru.New[script.Terms, *script.Proposal](familyProposals)
	if err != nil {
		return nil, errors.Join(ErrInvalidConfig, err)
	}
	f := &Family{core: newCore(c, name, "f:"+name), keys: keys, proposals: proposals}
	f.core.declared = limit
	f.core.metrics = telemetry.NewLimiter(name, limit.Algorithm.String())
	f.core.registered(true)
	c.families[name] = f
	return f, nil
}

// Name is the name the family was declared under.
func (f *Family) Name() string { return f.core.name }

// Limit is the limit in force for each key, as far as this process has heard.
func (f *Family) Limit() Limit {
	return f.core.limitNow()
}

// SetLimit changes the limit of every key that has none of its own, as Limiter.SetLimit does for
// a limit, except that Shards stays as it is. ErrInvalidLimit also tells that a key's own limit
// could not be under another Algorithm or Scope. A process learns of it with its next call
// for a key that another process has used since, at the latest after 15 seconds
// of use.
func (f *Family) SetLimit(ctx context.Context, limit Limit) error {
	if f.core.client.closed.Load() {
		return ErrClosed
	}
	if err := limit.validate(); err != nil {
		return err
	}
	return ownError(f, f.core.register.Change(ctx, limit.wanted()))
}

// Limiter returns the limiter of one key (1 to MaxName bytes). It does no I/O:
// a shard without state starts with the family's limit. A process remembers the
// 65,536 keys used last, and some more up to a tenth; others cost no memory. Calls on an invalid
// key return ErrInvalidName.
func (f *Family) Limiter(key string) *Limiter {
	if c := f.keys.Get(key); c != nil {
		return c.limiter()
	}
	if err := checkName("key", key); err != nil { // not remembered: it may be of any length
		c := newCore(f.core.client, f.core.name, "")
		c.family, c.invalid, c.metrics = f, err, f.core.metrics
		c.declared = f.core.declaration()
		return c.limiter()
	}
	c := newCore(f.core.client, f.core.name+"/"+key, f.keyPrefix()+key)
	c.family, c.metrics = f, f.core.metrics
	c.declared = f.core.declaration()
	return f.keys.Add(key, c).limiter()
}

// proposal returns the terms in the form in which takes carry them.
func (f *Family) proposal(terms script.Terms) (*script.Proposal, error) {
	if p, ok := f.proposals.Get(terms); ok {
		return p, nil
	}
	p, err := terms.Proposal()
	if err == nil {
		f.proposals.Add(terms, p)
	}
	return p, err
}

// update gives a key the layout that follows from the family's.
func (f *Family) update(c *core) {
	ft := f.core.routes.Load()
	if ft == nil || c.invalid != nil || c.from.Load() == ft {
		return
	}
	c.declare(ft.limit)
	p, err := f.planOf(c, ft)
	if err == nil {
		err = c.adopt(p)
	}
	if err != nil {
		f.core.client.cfg.Logger.Error("family has no usable layout", "family", f.core.name, "err", err)
		return
	}
	c.from.Store(ft)
}

// planOf is the plan of a key under the family's routes.
func (f *Family) planOf(c *core, ft *routes) (*plan, error) {
	fresh := func() (*plan, error) {
		layout, err := ft.layout.ForKey(c.id)
		if err != nil {
			return nil, err
		}
		return c.planFor(layout)
	}
	if at, only := ft.layout.Keys.Only(c.id); only {
		return f.plans.of(ft, at, fresh)
	}
	return fresh()
}

package shardlimit

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"unique"

	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Family is one limit for each of many keys: users, addresses, API keys. All
// keys share the declaration; each has its own permits. It is safe for
// concurrent use.
type Family struct {
	core *core // holds the declaration; has no permits of its own
	keys keys

	plans keyPlans
	// Where keys of each region of the slots were last.
	spaces [shard.KeySlots]atomic.Pointer[script.Space]
	places [shard.KeySlots]atomic.Pointer[keyPlace] // likewise, of those that had nothing free
}

// Family declares or joins a limit that holds for every key by itself, under the rules of
// Client.Limiter. Each key has one shard, and grants first come, first served, whoever calls; the
// keys spread over the nodes. So Shards is 0 or 1, and Lease 0: else ErrInvalidLimit. A Limiter has
// fair or weighted parts, and shards on several servers.
func (c *Client) Family(ctx context.Context, name string, limit Limit) (*Family, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if err := limit.validate(); err != nil {
		return nil, err
	}
	limit, err := limit.forKeys()
	if err != nil {
		return nil, err
	}
	f, err := c.family(name, limit)
	if err != nil {
		return nil, err
	}
	if err := f.core.join(ctx, limit); err != nil {
		return nil, err
	}
	f.core.overruled(limit, f.core.limitNow())
	return f, nil
}

// OpenFamily returns a handle on a family that is stored already, without declaring anything.
// Errors are those of Open.
func (c *Client) OpenFamily(ctx context.Context, name string) (*Family, error) {
	f, err := open(ctx, c, name, true, c.families, c.family)
	if err != nil {
		return nil, err
	}
	return f, f.core.join(ctx, f.core.declaration())
}

// forKeys is a limit as the keys of a family have it.
func (l Limit) forKeys() (Limit, error) {
	switch {
	case l.Shards > 1:
		return l, fmt.Errorf("%w: Shards is %d; a key of a family has one", ErrInvalidLimit, l.Shards)
	case l.Lease != 0:
		return l, fmt.Errorf("%w: Lease is %s; a key of a family has none", ErrInvalidLimit, l.Lease)
	}
	l.Shards = 1
	return l, nil
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
	f := &Family{core: newCore(c, name, "f:"+name)}
	f.keys.prefix = "k" + strconv.Itoa(len(name)) + ":" + name + ":"
	f.keys.remember(c.familyKeys)
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

// SetLimit changes the limit of every key whose calls bring none, as Limiter.SetLimit does for a
// limit. A process hears of it within 2 seconds of use, while the record can be read.
func (f *Family) SetLimit(ctx context.Context, limit Limit) error {
	if f.core.client.closed.Load() {
		return ErrClosed
	}
	if err := limit.validate(); err != nil {
		return err
	}
	limit, err := limit.forKeys()
	if err != nil {
		return err
	}
	return f.core.register.Change(ctx, limit.wanted())
}

// Limiter returns the limiter of one key (1 to MaxName bytes). It does no I/O: a shard without
// state starts with the family's limit. A process keeps nothing of an idle key but what its next
// call must know, such as a denial, and that of 65,536 keys and up to a tenth more. Calls on an
// invalid key return ErrInvalidName.
func (f *Family) Limiter(key string) *Limiter {
	return &Limiter{core: f.core, family: f, key: keyed{key: key}}
}

// LimiterWith is Limiter for a key whose limit the caller knows, from a database, a plan or a
// token: the limit comes with the calls. No record keeps it; only the shard of the key does. So a
// million keys may each have another one. Where the limits of two callers differ, that of the
// higher Revision is in force, of the same Revision the one that came last. Limiter brings the
// family's. The Limiter keeps its limit, so call LimiterWith for each request.
//
// The next call feels a higher limit. A lower one holds in every window that begins after the first
// call that brought it. What was used counts, whichever limit was in force. One call is granted no
// more than the limit that it brings. Decision.Limit is the one in force, as far as this limiter
// has heard. What a process decides by itself (FailLocal, PerParticipant) counts for each limit of
// a key apart. A Burst of 0 means Permits.
//
// Mode is not compared: calls go by the one they bring. So a key may be Off or Closed for one
// caller only, and one that waits for a Closed limit waits until its context ends.
//
// Algorithm, Scope and Per are the family's: leave them zero, or give the same. A Burst takes at
// most as long to fill as the longest that the family ever had. Calls on another limit return
// ErrInvalidLimit. A limiter that has another Per because the family's has changed since goes by
// the family's limit.
func (f *Family) LimiterWith(key string, limit Limit) *Limiter {
	came, err := f.terms(limit)
	return &Limiter{core: f.core, family: f, key: keyed{key, unique.Make(came)}, invalid: err}
}

// terms are those of a limit that comes with calls.
func (f *Family) terms(limit Limit) (shard.Terms, error) {
	of := f.core.limitNow()
	if limit.Algorithm != 0 && limit.Algorithm != of.Algorithm {
		f.core.Refresh() // the family may have another one by now
		return shard.Terms{}, fmt.Errorf("%w: Algorithm is %s, the keys of family %q count by %s: leave it zero, or "+
			"change the family", ErrInvalidLimit, limit.Algorithm, f.core.name, of.Algorithm)
	}
	if limit.Scope != 0 && limit.Scope != of.Scope {
		f.core.Refresh()
		return shard.Terms{}, fmt.Errorf("%w: Scope is that of family %q: leave it zero", ErrInvalidLimit, f.core.name)
	}
	if limit.Per != 0 && limit.Per != of.Per {
		f.core.Refresh()
		return shard.Terms{}, fmt.Errorf("%w: Per is %s, the keys of family %q have %s: leave it zero, or have a "+
			"family for each Per", ErrInvalidLimit, limit.Per, f.core.name, of.Per)
	}
	limit.Algorithm, limit.Scope, limit.Per = of.Algorithm, of.Scope, of.Per
	if err := limit.validate(); err != nil {
		return shard.Terms{}, err
	}
	if _, err := limit.forKeys(); err != nil {
		return shard.Terms{}, err
	}
	spec, longest := limit.wanted().Spec, of.wanted().Lasts()
	if r := f.core.routes.Load(); r != nil {
		longest = r.layout.Keys.Longest
	}
	if spec.Lasts() > longest {
		f.core.Refresh()
		return shard.Terms{}, fmt.Errorf("%w: the Burst of %s takes longer to fill than any that family %q had: give "+
			"the family a larger one first, once", ErrInvalidLimit, limit, f.core.name)
	}
	return shard.Terms{Permits: spec.Permits, Burst: spec.Burst, Revision: spec.Revision, Window: spec.Window,
		Mode: spec.Mode}, nil
}

// with is the limit of a key with these terms, in a family that has l.
func (l Limit) with(t shard.Terms) Limit {
	if t != (shard.Terms{}) {
		l.Permits, l.Per, l.Burst, l.Revision = t.Permits, t.Window, t.Burst, t.Revision
		l.Mode, _ = modeNamed(t.Mode) // it was one
	}
	return l
}

// update gives a key the layout that follows from the family's.
func (f *Family) update(c *core) {
	ft := f.core.routes.Load()
	if ft == nil || c.invalid != nil || c.from.Load() == ft {
		return
	}
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
	came := c.key.terms()
	if !ft.limit.Algorithm.bursty() { // it is another one since
		came.Burst = 0
	}
	if came != (shard.Terms{}) {
		spec := came.Over(ft.layout.Spec())
		if spec.Window != ft.limit.Per || spec.Lasts() > ft.layout.Keys.Longest {
			came = shard.Terms{} // so LimiterWith would say now
		}
	}
	fresh := func() (*plan, error) {
		layout, err := ft.layout.ForKey(c.id, came)
		if err != nil {
			return nil, err
		}
		return c.planFor(layout)
	}
	if at, only := ft.layout.Keys.Only(c.id); only {
		return f.plans.of(ft, keyPlan{at, came}, fresh)
	}
	return fresh()
}

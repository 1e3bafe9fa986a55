package limit

import (
	"fmt"
	"sync"
	"time"
	"unique"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Family is a family as its keys see it.
type Family struct {
	Of *Core // holds the declaration; has no permits of its own

	plans  keyPlans
	losses sync.Map // by node: when the log was last told that it has lost a key
}

// hears reports whether the log is to be told that a node has lost a key: once a minute, as it may
// lose all of them at once.
func (f *Family) hears(node string, now int64) bool {
	if last, told := f.losses.Load(node); told && now-last.(int64) < int64(time.Minute) {
		return false
	}
	f.losses.Store(node, now)
	return true
}

// Terms returns the terms of a limit that comes with calls. After an error the record is looked at:
// the family may have another limit by now.
func (f *Family) Terms(limit Limit) (t shard.Terms, err error) {
	defer func() {
		if err != nil {
			f.Of.Refresh()
		}
	}()
	of := f.Of.LimitNow()
	if limit.Algorithm != 0 && limit.Algorithm != of.Algorithm || limit.Scope != 0 && limit.Scope != of.Scope ||
		limit.Per != 0 && limit.Per != of.Per {
		return t, fmt.Errorf("%w: Algorithm, Scope and Per are %s, %s and %s for all keys of family %q: leave them "+
			"zero, or have another family", ErrInvalidLimit, of.Algorithm, of.Scope, of.Per, f.Of.Name)
	}
	limit.Algorithm, limit.Scope, limit.Per = of.Algorithm, of.Scope, of.Per
	if limit, err = limit.ForKeys(); err != nil {
		return t, err
	}
	spec, longest := limit.Wanted().Spec, of.Wanted().Lasts()
	if r := f.Of.Routes.Load(); r != nil {
		longest = r.Layout.Keys.Longest
	}
	if spec.Lasts() > longest {
		return t, fmt.Errorf("%w: the Burst of %s takes longer to fill than any that family %q had: give the family a "+
			"larger one first, once", ErrInvalidLimit, limit, f.Of.Name)
	}
	return shard.Terms{Permits: spec.Permits, Burst: spec.Burst, Revision: spec.Revision, Window: spec.Window,
		Mode: spec.Mode}, nil
}

// update gives a key the layout that follows from the family's.
func (f *Family) update(c *Core) {
	ft := f.Of.Routes.Load()
	if ft == nil || c.Invalid != nil || c.From.Load() == ft {
		return
	}
	p, err := f.planOf(c, ft)
	if err == nil {
		err = recorded{c}.adopt(p)
	}
	if err != nil {
		f.Of.Process.Config.Logger.Error("family has no usable layout", "family", f.Of.Name, "err", err)
		return
	}
	c.From.Store(ft)
}

// planOf returns the plan of a key under the family's routes.
func (f *Family) planOf(c *Core, ft *Routes) (*Plan, error) {
	came := c.Key.Terms()
	if !ft.Limit.Algorithm.Bursty() { // it is another one since
		came.Burst = 0
	}
	if came != (shard.Terms{}) {
		spec := came.Over(ft.Layout.Spec)
		if spec.Window != ft.Limit.Per || spec.Lasts() > ft.Layout.Keys.Longest {
			came = shard.Terms{} // so LimiterWith would say now
		}
	}
	at, only := ft.Layout.Keys.OnlyOf("", c.ID)
	if p := f.known(ft, keyPlan{at, came}); only && p != nil {
		return p, nil
	}
	layout, err := ft.Layout.ForKey(c.ID, came)
	if err != nil {
		return nil, err
	}
	p, err := c.plan(layout)
	if err == nil && only {
		if came == (shard.Terms{}) {
			p.Account = f.account(p)
		}
		f.plans.remember(ft, keyPlan{at, came}, p)
	}
	return p, err
}

// known returns the plan of keys that is remembered; nil: there is none, or its node turned out to
// be called otherwise.
func (f *Family) known(ft *Routes, which keyPlan) *Plan {
	p := f.plans.of(ft, which)
	if p == nil || p.Account != nil && p.Account.Shard.Node != f.Of.Process.Nodes.Node(which.at.Node) {
		return nil
	}
	return p
}

// account returns the account for keys that lie where the plan says; nil if each needs its own.
func (f *Family) account(p *Plan) *dispatch.Account {
	of := f.Of.Process
	n := of.Nodes.Node(p.homes[0].Node)
	plain := p.Limit.Mode == Enforced && p.Limit.Scope == Global && !p.homes[0].Paced
	if n == nil || !plain || of.Config.OnOutage == FailLocal { // which counts what each key was granted
		return nil
	}
	sh := (&dispatch.Shard{}).Init(of.Dispatch, p.homes[0], recorded{f.Of}, script.ShardRef{}, n, p.terms[0])
	return dispatch.NewAccount(&dispatch.Participant{ID: of.Who.ID, Weight: of.Who.Weight}, sh)
}

// PlanOfKey returns the plan of a key whose calls bring no terms, under the family's routes; nil if
// the key needs a Core.
func (f *Family) PlanOfKey(ft *Routes, prefix, key string) *Plan {
	at, only := ft.Layout.Keys.OnlyOf(prefix, key)
	if p := f.known(ft, keyPlan{at: at}); only && p != nil && p.Account != nil {
		return p
	}
	return nil
}

// Keyed is a key with the terms that come with its calls, if any do.
type Keyed struct {
	Key  string
	Came unique.Handle[shard.Terms] // the zero handle: none
}

// Terms returns the terms that come with the key's calls.
func (k Keyed) Terms() (t shard.Terms) {
	if k.Came != (unique.Handle[shard.Terms]{}) {
		t = k.Came.Value()
	}
	return t
}

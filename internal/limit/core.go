// Package limit is one limit in this process: how it is declared, the layout in use, and its
// shards.
package limit

import (
	"cmp"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Core is one limit as one process sees it: the layout in use, and its shards. Every handle on
// the name shares it, so that all callers do.
type Core struct {
	Subject
	callers Callers
	Routes  atomic.Pointer[Routes]        // nil until the limit has been declared or joined
	From    atomic.Pointer[Routes]        // of a key: the family's routes that its own were made from
	move    atomic.Pointer[register.Move] // of a key; nil until it has had to move

	mu       sync.Mutex
	declared Limit       // by the code, at the highest revision
	told     atomic.Bool // the log was told that the declaration is not in force
	// Shards are those that calls may still be at, under any layout. mu guards them.
	Shards []*dispatch.Shard
	// The first ones, in one piece with the core: a key seldom has others.
	first struct {
		routes Routes
		shard  dispatch.Shard
		shards [1]*dispatch.Shard
	}
}

// Subject is what a limit is called and where it belongs. It does not change once it is in use.
type Subject struct {
	Process  *Process
	Name     string // as the user wrote it; not set for a key
	ID       string // as it stands in Redis keys
	Metrics  *telemetry.Limiter
	Register *register.Register // nil for a key of a family
	// Only of a key of a family:
	Family  *Family
	Key     Keyed
	Invalid error // why the key cannot be used
}

// Callers are those who call for permits of a limit, and what they remember of it.
type Callers interface {
	// Freed tells that permits may be free where none were. With anew whoever waits begins anew:
	// usage was forgotten, or the limit changed.
	Freed(anew bool)
	// Adopted tells that another layout is in use.
	Adopted(r *Routes)
	// GiveBack returns permits that nobody uses.
	GiveBack(parts []dispatch.Part)
}

// Init makes a zero Core that of a limit, as it is declared.
func (c *Core) Init(p *Process, callers Callers, name, id string, declared Limit) {
	c.Process, c.callers, c.Name, c.ID, c.declared = p, callers, name, id, declared
}

// Declaration returns what the code declares, at the highest revision. For a key, that is the
// family's limit with the terms that come with the calls.
func (c *Core) Declaration() Limit {
	if f := c.Family; f != nil {
		limit := f.Of.Declaration()
		if r := f.Of.Routes.Load(); r != nil && r.Limit.Revision > limit.Revision {
			limit = r.Limit
		}
		return limit.with(c.Key.Terms())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.declared
}

// Record returns the reader of the record that holds the limit: the family's for a key.
func (of *Subject) Record() *register.Reader {
	if of.Family != nil {
		return of.Family.Of.Register.Reader
	}
	return of.Register.Reader
}

// adopt makes the layout of a plan the one this process works with, unless it has a newer one.
func (c recorded) adopt(p *Plan) error {
	layout := &p.Layout
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Record().Deleted() {
		return register.ErrDeleted // while the layout was on its way
	}
	old := c.Routes.Load()
	if old != nil && (old.Layout.Epoch > layout.Epoch || old.Layout.Epoch == layout.Epoch && old.Layout.Settled) {
		return nil
	}
	r := c.newRoutes(p)
	c.Routes.Store(r)
	if old == nil {
		c.Overruled(c.declared, p.Limit)
	}
	c.Metrics.CountsBy(p.Limit.Algorithm.String())
	if layout.Fence != nil && c.Register != nil {
		c.Register.ReconsiderSoon() // nodes may be lost, or back, that it does not know of
	}
	if old != nil && old.Layout.Epoch != layout.Epoch {
		c.callers.Adopted(r)
	}
	return nil
}

// admitsAs reports whether two limits admit the same.
func (l Limit) admitsAs(o Limit) bool {
	l.Burst, o.Burst = cmp.Or(l.Burst, l.Permits), cmp.Or(o.Burst, o.Permits)
	l.Shards, l.Revision, o.Shards, o.Revision = 0, 0, 0, 0
	return l == o
}

// Overruled tells the log, once, that a declaration is not what is in force: a stored limit wins
// unless the code's Revision is higher.
func (c *Core) Overruled(declared, inForce Limit) {
	if c.Family != nil || declared.Revision > inForce.Revision || declared.admitsAs(inForce) ||
		!c.told.CompareAndSwap(false, true) {
		return
	}
	c.Process.Config.Logger.Warn("the limit that this code declares is not in force: another one is stored, and only a "+
		"higher Revision replaces that", "limiter", c.Name, "declared", declared.String(), "in force",
		inForce.String(), "revision", inForce.Revision)
}

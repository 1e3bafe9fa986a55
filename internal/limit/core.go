// Package limit is one limit in this process: how it is declared, the layout in use, and the lanes
// to its shards.
package limit

import (
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Core is one limit as one process sees it: the layout in use, and the ways to its shards. Every
// handle on the name shares it, so that all callers share its lanes.
type Core struct {
	Process *Process
	callers Callers
	Name    string // as the user wrote it; not set for a key
	ID      string // as it stands in Redis keys
	ofFamily

	Routes   atomic.Pointer[Routes] // nil until the limit has been declared or joined
	Register *register.Register     // nil for a key of a family
	Metrics  *telemetry.Limiter

	mu       sync.Mutex
	declared Limit       // by the code, at the highest revision
	told     atomic.Bool // the log was told that the declaration is not in force
	ways
}

// ofFamily is what only a key of a family has.
type ofFamily struct {
	Family  *Family
	Key     Keyed
	Text    string                        // the id, behind how the keys of another one begin: see script.Space
	Invalid error                         // why the key cannot be used
	From    atomic.Pointer[Routes]        // the family's routes that this one's was made from
	move    atomic.Pointer[register.Move] // nil until the key has had to move
}

// Callers are those who call for permits of a limit, and what they remember of it.
type Callers interface {
	// Freed tells that permits may be free where none were. With anew whoever waits begins anew:
	// usage was forgotten, or the limit changed.
	Freed(anew bool)
	// Adopted tells that another layout is in use.
	Adopted(r *Routes)
	// GiveBack returns permits that nobody uses, and tells how many could not be returned.
	GiveBack(parts []dispatch.Part) (lost int64)
}

// Init makes a zero Core that of a limit, as it is declared.
func (c *Core) Init(p *Process, callers Callers, name, id string, declared Limit) {
	c.Process, c.callers, c.Name, c.ID, c.declared, c.ways.core = p, callers, name, id, declared, c
}

// Title returns what messages call the limit.
func (c *Core) Title() string {
	if c.Family != nil {
		return c.Family.Of.Name + "/" + c.Key.Key
	}
	return c.Name
}

// declare notes what the code declares; a higher revision replaces a lower one.
func (c *Core) declare(limit Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.Revision > c.declared.Revision {
		if c.declared = limit; c.Register != nil {
			c.Register.Declare(limit.Wanted())
		}
	}
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

// Renew makes the routes anew, after nodes turned out to be called otherwise.
func (c *Core) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.Routes.Load()
	if old == nil {
		return
	}
	c.Routes.Store(c.newRoutes(old.Plan))
	c.callers.Freed(true)
}

// Reconsider has the layout follow the nodes that went out or came in.
func (c *Core) Reconsider() {
	c.Register.ReconsiderSoon()
	c.callers.Freed(true)
}

// Record returns the register that holds the limit: the family's for a key.
func (c *Core) Record() *register.Register {
	if c.Family != nil {
		return c.Family.Of.Register
	}
	return c.Register
}

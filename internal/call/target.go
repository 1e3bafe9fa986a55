package call

import (
	"context"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/local"
)

// Target is one limit, or one key of a family, with those who call for it.
type Target struct {
	limit.Core
	Of      *Family // that it is a key of, or declares; nil: neither
	Members members
	ahead   atomic.Pointer[outlook]
	seldom  atomic.Pointer[rare] // see rare
	member  Member               // the process itself, in one piece with the target

	// Only for a key:
	part   *keyPart // of the family's keys that it is in
	uses   int      // how many hold it; see keys
	idle   int64    // since when nobody does, on the client's clock
	counts int64    // until when what the process counts by itself does
}

func newTarget(c *limit.Process, name, id string, declared limit.Limit) *Target {
	co := &Target{}
	co.Core.Init(c, co, name, id, declared)
	co.member.is(c.Who, co)
	co.Members.own = &co.member
	return co
}

// Limiter returns the limiter of the process itself.
func (c *Target) Limiter() Limiter { return Limiter{Target: c, member: &c.member} }

// Freed tells that permits may be free where none were. With anew whoever waits begins anew.
func (c *Target) Freed(anew bool) {
	c.ahead.Store(nil)
	if anew {
		c.Members.Wake(true)
	}
}

// Eased tells that much may be free: nothing is believed of what was.
func (c *Target) Eased() {
	c.forgetDenials()
	c.Freed(true)
}

// forgetDenials forgets for all its participants that nothing is free.
func (c *Target) forgetDenials() {
	for _, m := range c.Members.all() {
		m.ForgetDenials(c.Routes.Load())
	}
}

// Adopted tells that another layout is in use: a raised limit may have room where there was none.
func (c *Target) Adopted(r *limit.Routes) {
	c.Eased()
	if c.Family == nil && c.Of != nil {
		c.Process.Spawn(func(context.Context) { c.Of.changed() }) // who waits may look at c, whose lock is held
	}
	for _, m := range c.Members.all() {
		if l := m.Leases.Current.Load(); l != nil && l.epoch != r.Layout.Epoch {
			m.Leases.retire(l)
		}
	}
}

// GiveBack returns permits that nobody uses.
func (c *Target) GiveBack(parts []dispatch.Part) {
	var d Decision
	d.addParts(parts, 0)
	if _, lost := c.GiveBackAll(d, false); lost > 0 {
		c.Process.Telemetry.Lost(c.Metrics, lost)
	}
	c.Members.Wake(false) // somebody may have been refused meanwhile
}

// rare is what a limit has in this process from when somebody first needs it. Of a million keys
// hardly any does.
type rare struct {
	// own enforces this process' part of the limit while Redis is away. It is kept up to date
	// while Redis is there, so that an outage does not hand the window out a second time.
	own     local.Engine
	nonce   uint64        // tells their tickets from those of other processes and limits
	made    atomic.Uint64 // decisions that this process put together; makes tickets unique
	collect chan struct{} // holds one token: one collection at a time
	Courtesy
}

func (c *Target) rare() *rare {
	return made(&c.seldom, func() *rare {
		return &rare{own: local.Engine{Clock: &c.Process.Clock}, nonce: chance.Uint64(),
			collect: make(chan struct{}, 1), Courtesy: Courtesy{target: c}}
	})
}

// made returns what p points to, and has it made if that is nothing.
func made[T any](p *atomic.Pointer[T], fresh func() *T) *T {
	if v := p.Load(); v != nil {
		return v
	}
	p.CompareAndSwap(nil, fresh())
	return p.Load()
}

package shardlimit

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/memory"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// core is one limit as one process sees it. Every Limiter handle of the name
// shares it, so that all callers share its lanes.
type core struct {
	client *Client
	name   string // as the user wrote it
	id     string // as it stands in Redis keys

	// Only for a key of a family:
	family  *Family
	invalid error                         // why the key cannot be used
	from    atomic.Pointer[routes]        // the family's routes that this one's was made from
	move    atomic.Pointer[register.Move] // nil until the key has had to move

	routes         atomic.Pointer[routes] // nil until the limit has been declared or joined
	register       *register.Register     // nil for a key of a family
	members        members
	local          ownPart
	perParticipant perParticipant
	refunded       memory.Tickets[ticketKey]
	reserved       memory.Reserved[*Reservation]
	bookings       atomic.Uint64 // so far; makes tickets unique
	metrics        *telemetry.Limiter
	collect        chan struct{} // holds one token: one collection at a time
	ahead          atomic.Pointer[outlook]

	mu       sync.Mutex
	declared Limit                     // by the code, at the highest revision
	lanes    map[shard.Site]*lane.Lane // every lane ever made, so that its memory survives a new layout
	missing  map[string]bool           // nodes that a layout names and the Config does not; the log was told of them
}

// routes are a layout with the lanes to its shards. They never change; a new
// layout has new ones.
type routes struct {
	layout shard.Layout
	limit  Limit
	lanes  []*lane.Lane // to the live shards, in the order of the layout
	order  []*lane.Lane // the same in this participant's order of preference
	split  bool         // whether the limit has more than one shard
	memory int64        // nanoseconds after which what was granted is free again
	closed error        // why no shard can be used though nodes answer; nil: none is kept from use

	record *register.Register // that holds the layout, or what it follows from
}

func newCore(c *Client, name, id string) *core {
	co := &core{client: c, name: name, id: id, collect: make(chan struct{}, 1)}
	co.local.core = co
	co.members.own = newMember(co, c.who)
	co.local.engine.Clock, co.perParticipant.mine.Clock = &c.clock, &c.clock
	return co
}

// limiter is a handle on the limit for the process itself.
func (c *core) limiter() *Limiter { return &Limiter{core: c, member: c.members.own} }

// declare notes what the code declares; a higher revision replaces a lower one.
func (c *core) declare(limit Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.Revision > c.declared.Revision {
		c.declared = limit
	}
}

func (c *core) declaration() Limit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.declared
}

// newRoutes makes the routes of a layout, and tells the lanes their terms. c.mu is held.
func (c *core) newRoutes(layout shard.Layout, limit Limit) (*routes, error) {
	live := layout.Live()
	c.leave(layout)
	r := &routes{layout: layout, limit: limit, split: len(live) > 1, memory: int64(limit.memory()),
		record: c.record()}
	for _, s := range live {
		terms, err := c.termsFor(layout, s)
		if err != nil {
			return nil, err
		}
		l := c.lane(s, terms)
		if l == nil {
			c.stranger(s.Node)
			continue
		}
		l.Terms.Store(terms)
		r.lanes = append(r.lanes, l)
	}
	for _, i := range shard.Rank(c.client.cfg.Participant, live) {
		if l := c.lane(live[i], nil); l != nil {
			r.order = append(r.order, l)
		}
	}
	return r, nil
}

// renew makes the routes anew, after the nodes have changed.
func (c *core) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.routes.Load()
	if old == nil {
		return
	}
	r, err := c.newRoutes(old.layout, old.limit)
	if err != nil { // cannot be: it was made before
		c.client.cfg.Logger.Error("limiter does not see the new nodes", "limiter", c.name, "err", err)
		return
	}
	c.routes.Store(r)
	c.members.restartWaiters()
}

// stranger tells the log, once, that a node of the layout is not in this process' Config. c.mu is
// held.
func (c *core) stranger(node string) {
	if !c.missing[node] {
		if c.missing == nil {
			c.missing = make(map[string]bool)
		}
		c.missing[node] = true
		c.client.cfg.Logger.Warn("limiter has shards on a node that is not in Config.Nodes; this process serves from "+
			"the others", "limiter", c.name, "node", node)
	}
}

// termsFor is what to propose to a shard of the layout. Only a settled layout
// entitles a shard to its share at once; else its capacity comes from a Plan.
func (c *core) termsFor(layout shard.Layout, s shard.Shard) (*lane.Terms, error) {
	var floor int64
	if layout.Settled {
		floor = s.Share
	}
	proposal, err := c.proposal(layout, s, floor)
	return &lane.Terms{
		Epoch:    layout.Epoch,
		Most:     cmp.Or(s.Burst, s.Share),
		Window:   layout.Span(),
		Shards:   int64(len(layout.Live())),
		Proposal: proposal,
	}, err
}

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. c.mu is held.
func (c *core) leave(layout shard.Layout) {
	live := make(map[shard.Site]bool)
	for _, s := range layout.Live() {
		live[s.Site()] = true
	}
	for at, l := range c.lanes {
		if live[at] || l.Terms.Load().Epoch == layout.Epoch {
			continue
		}
		left := shard.Shard{Slot: at.Slot, Node: at.Node, Algorithm: at.Algorithm, Start: shard.Unknown}
		if t, err := c.termsFor(layout, left); err == nil { // a shard of an unknown algorithm has no keys
			l.Terms.Store(t)
		}
	}
}

// proposal offers a layout to one of its shards, with the share that it may put in force at once.
// While the layout is not settled, it says what the one before left to the shard: what a state of
// an old snapshot holds beyond that is in force elsewhere.
func (c *core) proposal(layout shard.Layout, s shard.Shard, floor int64) (*script.Proposal, error) {
	algorithm, err := algorithmNamed(s.Algorithm)
	if err != nil {
		return nil, err
	}
	terms := script.Terms{
		Epoch: layout.Epoch, Target: s.Share, Floor: floor, Window: layout.Span(), Keep: c.keep(s),
		Algorithm: algorithm.inScripts(), Burst: s.Burst, Retire: s.Algorithm != layout.Algorithm,
		Quarantine: c.client.quarantines(layout.Window),
	}
	if !layout.Settled && s.Start != shard.Unknown {
		terms.Held, terms.HeldKnown = s.Start, true
	}
	if c.family != nil {
		return c.family.proposal(terms)
	}
	return terms.Proposal()
}

// headKeep is how much longer than two windows the head of a live shard is kept, so that a rest
// makes no shard absent.
const headKeep = 24 * time.Hour

// keep is how much longer than two windows a shard's state lives after its last use. A family
// has so many keys that those of live shards do not outlive what they tell.
func (c *core) keep(s shard.Shard) time.Duration {
	switch {
	case s.Share == 0:
		return register.StateKeep
	case c.family != nil:
		return time.Second
	}
	return headKeep
}

// laneTo returns the lane to a shard, nil if its node is not configured.
func (c *core) laneTo(s shard.Shard) *lane.Lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane(s, nil)
}

// abandon ends every call that is under way.
func (c *core) abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lanes {
		l.Abandon()
	}
}

// lane is laneTo with c.mu held. A new lane gets the terms, or, where they are nil, such as propose
// nothing.
func (c *core) lane(s shard.Shard, t *lane.Terms) *lane.Lane {
	at := s.Site()
	n := c.client.nodes.Node(s.Node)
	if n == nil {
		return nil
	}
	old := c.lanes[at]
	if old != nil && old.Node == n {
		return old
	}
	if t == nil {
		t = noTerms(s.Algorithm)
	}
	l := lane.New(c.client.lanes, c.wayTo(n, s), t)
	if old != nil { // the node has moved
		l.Follows(old)
	}
	if c.lanes == nil {
		c.lanes = make(map[shard.Site]*lane.Lane)
	}
	c.lanes[at] = l
	return l
}

// record is the register that holds the limit: the family's for a key.
func (c *core) record() *register.Register {
	if c.family != nil {
		return c.family.core.register
	}
	return c.register
}

// free adds up what was free on the shards this process has heard from.
func (r *routes) free() (n int64) {
	for _, l := range r.lanes {
		free, _ := l.Free()
		n += free
	}
	return n
}

// resetAfter is the time until no shard that this process has heard from has a permit in its log.
func (r *routes) resetAfter(now int64) time.Duration {
	var last int64
	for _, l := range r.lanes {
		last = max(last, l.ResetAt())
	}
	return time.Duration(max(0, last-now))
}

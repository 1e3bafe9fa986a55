package shardlimit

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// core is one limit as one process sees it. Every Limiter handle of the name
// shares it, so that all callers share its lanes.
type core struct {
	client *Client
	name   string // as the user wrote it; not set for a key
	id     string // as it stands in Redis keys

	// Only for a key of a family:
	family  *Family
	key     keyed
	text    string                        // the id, behind how the keys of another one begin: see script.Space
	invalid error                         // why the key cannot be used
	from    atomic.Pointer[routes]        // the family's routes that this one's was made from
	move    atomic.Pointer[register.Move] // nil until the key has had to move
	part    *keyPart                      // of the family's keys that it is in
	uses    int                           // how many hold it; see keys
	idle    int64                         // since when nobody does, on the client's clock
	counts  int64                         // until when what the process counts by itself does

	routes   atomic.Pointer[routes] // nil until the limit has been declared or joined
	register *register.Register     // nil for a key of a family
	members  members
	metrics  *telemetry.Limiter
	ahead    atomic.Pointer[outlook]
	seldom   atomic.Pointer[rare] // see rare

	// The first ones, in one piece with the core: a key seldom has others.
	member member
	first  struct {
		routes routes
		lane   lane.Lane
		lanes  [1]*lane.Lane
	}

	mu       sync.Mutex
	declared Limit           // by the code, at the highest revision
	lanes    []*lane.Lane    // every lane ever made, so that its memory survives a new layout
	told     atomic.Bool     // the log was told that the declaration is not in force
	missing  map[string]bool // nodes that a layout names and the Config does not; the log was told of them
}

// routes are a plan with the lanes to its shards. They never change; a new
// layout has new ones.
type routes struct {
	*plan
	lanes  []*lane.Lane // to the live shards, in the order of the layout
	order  []*lane.Lane // the same in this participant's order of preference
	split  bool         // whether the limit has more than one shard
	closed error        // why no shard can be used though nodes answer; nil: none is kept from use

	record *register.Register // that holds the layout, or what it follows from
	only   [1]*lane.Lane      // of lanes, as a rule
}

func newCore(c *Client, name, id string) *core {
	co := &core{client: c, name: name, id: id}
	co.member.is(c.who, co)
	co.members.own = &co.member
	return co
}

// limiter is a handle on the limit for the process itself.
func (c *core) limiter() *Limiter { return &Limiter{core: c, member: &c.member} }

// title is what messages call the limit.
func (c *core) title() string {
	if c.family != nil {
		return c.family.core.name + "/" + c.key.key
	}
	return c.name
}

// declare notes what the code declares; a higher revision replaces a lower one.
func (c *core) declare(limit Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.Revision > c.declared.Revision {
		c.declared = limit
	}
}

func (c *core) declaration() Limit {
	if f := c.family; f != nil {
		limit := f.core.declaration()
		if r := f.core.routes.Load(); r != nil && r.limit.Revision > limit.Revision {
			limit = r.limit
		}
		return limit.with(c.key.terms())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.declared
}

// newRoutes makes the routes of a plan, and tells the lanes their terms. c.mu is held.
func (c *core) newRoutes(p *plan) *routes {
	if len(c.lanes) > 0 {
		c.leave(p.layout)
		c.forget(p.layout)
	}
	r := &c.first.routes
	if r.plan != nil {
		r = &routes{}
	}
	r.plan, r.split, r.record = p, len(p.live) > 1, c.record()
	r.lanes = r.only[:0]
	all := make([]*lane.Lane, len(p.live))
	for i, s := range p.live {
		if all[i] = c.lane(s, p.terms[i], p.ways[i]); all[i] == nil {
			c.stranger(s.Node)
			continue
		}
		all[i].Terms.Store(p.terms[i])
		r.lanes = append(r.lanes, all[i])
	}
	if r.order = r.lanes; r.split {
		r.order = nil
		for _, i := range p.order {
			if all[i] != nil {
				r.order = append(r.order, all[i])
			}
		}
	}
	return r
}

// renew makes the routes anew, after nodes turned out to be called otherwise.
func (c *core) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.routes.Load()
	if old == nil {
		return
	}
	c.routes.Store(c.newRoutes(old.plan))
	c.members.restartWaiters()
}

// reconsider has the layout follow the nodes that went out or came in.
func (c *core) reconsider() {
	c.register.ReconsiderSoon()
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
			"the others", "limiter", c.title(), "node", node)
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
	t := &lane.Terms{
		Epoch:    layout.Epoch,
		Most:     cmp.Or(s.Burst, s.Share),
		Share:    s.Share,
		Window:   layout.Span(),
		Shards:   int64(len(layout.Live())),
		Split:    slices.ContainsFunc(layout.Live(), func(o shard.Shard) bool { return o.Node != s.Node }),
		Proposal: proposal,
	}
	if layout.Fence != nil {
		t.Fence = c.client.records.Fence
	}
	return t, err
}

// leave tells the lanes that the layout has no live shard for: calls that are on their way to them
// find what is there, and claim nothing. c.mu is held.
func (c *core) leave(layout shard.Layout) {
	live := make(map[shard.Site]bool)
	for _, s := range layout.Live() {
		live[s.Site()] = true
	}
	for _, l := range c.lanes {
		at := siteOf(l)
		if live[at] || l.Terms.Load().Epoch == layout.Epoch {
			continue
		}
		left := shard.Shard{Slot: at.Slot, Node: at.Node, Algorithm: at.Algorithm, Life: at.Life, Start: shard.Unknown}
		if t, err := c.termsFor(layout, left); err == nil { // a shard of an unknown algorithm has no keys
			if t.Fence = l.Terms.Load().Fence; l.Life == "" {
				t.Fence = nil
			}
			l.Terms.Store(t)
		}
	}
}

// forget drops the lanes that the layout has no shard for, live or leaving, once no call waits
// there: a node that falls and returns has other shards each time. c.mu is held.
func (c *core) forget(layout shard.Layout) {
	listed := make(map[shard.Site]bool, len(layout.Shards))
	for _, s := range layout.Shards {
		listed[s.Site()] = true
	}
	c.lanes = slices.DeleteFunc(c.lanes, func(l *lane.Lane) bool {
		gone := !listed[siteOf(l)] && l.Waiting.Load() == 0
		if gone {
			l.Gone.Store(true)
		}
		return gone
	})
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
		terms.Revision = layout.Revision
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
		return register.KeyKeep
	}
	return headKeep
}

// laneTo returns the lane to a shard, nil if its node is not configured.
func (c *core) laneTo(s shard.Shard) *lane.Lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane(s, nil, nil)
}

// lane is laneTo with c.mu held. A new lane gets the terms, or, where they are nil, such as propose
// nothing, and likewise the way to it.
func (c *core) lane(s shard.Shard, t *lane.Terms, w *lane.Way) *lane.Lane {
	n := c.client.nodes.Node(s.Node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(c.lanes, func(l *lane.Lane) bool { return l.Slot == s.Slot && siteOf(l) == s.Site() })
	if i >= 0 && c.lanes[i].Node == n {
		return c.lanes[i]
	}
	if t == nil {
		t, w = noTerms(s.Algorithm), c.wayTo(s)
	}
	l := &c.first.lane
	if c.lanes == nil {
		c.lanes = c.first.lanes[:0]
	} else {
		l = &lane.Lane{}
	}
	l.Lead(c.client.lanes, w, c, w.Space.KeysAt(c.text, c.id), n, t)
	if f := c.family; f != nil {
		if last := &f.spaces[shard.RegionOf(s.Slot)]; last.Load() != &w.Space {
			last.Store(&w.Space)
		}
	}
	if i < 0 {
		c.lanes = append(c.lanes, l)
	} else { // the node turned out to be called otherwise
		l.Follows(c.lanes[i])
		c.lanes[i].Gone.Store(true)
		c.lanes[i] = l
	}
	return l
}

// siteOf is where the shard is that a lane leads to.
func siteOf(l *lane.Lane) shard.Site {
	return shard.Shard{Slot: l.Slot, Node: l.Home, Algorithm: l.Algorithm, Life: l.Life}.Site()
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

// expected adds up what is free now as far as this process knows. A shard that it has not heard
// from, or whose log has emptied since, has its share, unless its node is away.
func (r *routes) expected(now int64) (n int64) {
	for _, l := range r.lanes {
		n += present(l, now)
	}
	return min(n, r.limit.most())
}

// present is what a shard is expected to have free, nothing while its node is away.
func present(l *lane.Lane, now int64) int64 {
	if !l.Node.Ready(l.Slot) {
		return 0
	}
	return l.Expected(now)
}

// nextAfter is the time until one of the shards that have nothing has a permit again, 0 if that is
// not known.
func (r *routes) nextAfter(now int64) time.Duration {
	first := int64(math.MaxInt64)
	for _, l := range r.lanes {
		if at := l.FreeAt(); at > now {
			first = min(first, at)
		}
	}
	if first == math.MaxInt64 {
		return 0
	}
	return time.Duration(first - now)
}

// resetAfter is the time until no shard that this process has heard from has a permit in its log.
func (r *routes) resetAfter(now int64) time.Duration {
	var last int64
	for _, l := range r.lanes {
		last = max(last, l.ResetAt())
	}
	return time.Duration(max(0, last-now))
}

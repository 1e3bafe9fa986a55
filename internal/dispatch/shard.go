// Package dispatch is one process' way to its shards: how calls that meet share a script call, what
// the process remembers of the shard, and how each of its participants stands there. Every call to
// a shard goes through it: see call.
package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Shard is one shard of a limit as this process knows and asks it.
type Shard struct {
	pending // in front: what a join writes, apart from what is only read

	env *Env
	*Home
	Limit Limit
	Node  *node.Node
	Ref   script.ShardRef
	Nonce uint64                 // tells its tickets from those of every other shard, of any process
	Terms *atomic.Pointer[Terms] // those of one shard have them together, if its node has moved
	own   atomic.Pointer[Terms]
	Gone  atomic.Bool // the process uses it no more; calls under way may go on
	// Others are the shards of the limit, this one among them; nil: there is no other.
	Others atomic.Pointer[[]*Shard]
	Known  Knowledge
}

// Terms is what the process proposes to the shard with every call.
type Terms struct {
	Epoch  int64
	Most   int64 // permits that it can grant at once, as far as the layout says
	Window time.Duration
	Shards int64 // that the limit has
	Split  bool  // over several nodes
	Fence  Fence // tells whether the shard may be asked; nil: it always may

	Proposal *script.Proposal // what it claims for a shard without state is subject to basis.deadline
}

// splitOver reports whether the limit has shards on other servers than that of the node, that can
// answer where this one does not.
func (t *Terms) splitOver(n *node.Node) bool { return t.Split || t.Shards > 1 && n.Spread() }

// Fence tells which nodes are in, and for how long that may be relied on.
type Fence interface {
	// Until returns until when that may be relied on, as time elapsed; 0: it may not.
	Until(elapsed clock.Elapsed) clock.Elapsed
	// Bars reports whether a shard that is of an incarnation of a node must not be asked.
	Bars(node, incarnation string) bool
	// ConfirmSince has it confirmed, at most until ctx ends, by a read that began at that time
	// elapsed or later.
	ConfirmSince(ctx context.Context, since clock.Elapsed) error
}

// Env is what the shards of a process share.
type Env struct {
	Ctx         context.Context // ends with the process: calls do then, without their replies
	Clock       *clock.Clock
	Telemetry   *telemetry.Telemetry
	CallTimeout time.Duration

	keyAsks  sync.Pool // to be used again
	requests sync.Pool // likewise
	parked   sync.Map  // when calls end that are parked, by the step in which they do
}

// Home is where a shard lives. The keys of a family that lie at one place share it.
type Home struct {
	shard.Site // with the node as the layout calls it
	Metrics    *telemetry.Limiter
	Space      script.Space // of the shard's keys
	Bursty     bool         // its algorithm has a burst
	Paced      bool         // its permits have turns: a leaky bucket
	Keyed      bool         // it is of keys of a family, which nobody tells of another layout
}

// Limit is the limit that a shard is of. It is asked and told something with a script call, never
// with each call for permits.
type Limit interface {
	// Belief is what the process relies on that works with the layout of this epoch. It is read
	// again in good time.
	Belief(epoch int64, elapsed clock.Elapsed) Belief
	// Confirm makes sure that the layout of this process may be relied on, at most until ctx ends,
	// since a read that began at that time elapsed or later.
	Confirm(ctx context.Context, since clock.Elapsed) error
	// Learned takes in what a call to a shard has told.
	Learned(sh *Shard, n News)
}

// Belief is what a process relies on for a call to a shard.
type Belief struct {
	Until   clock.Elapsed // that it may rely on the layout; 0: it may not
	Known   time.Duration // how long the limit is known to have existed
	Expired bool          // the layout was confirmed, and that was too long ago
}

// News is what a call told: of the shard, if the call believed in another epoch or there was a
// loss; or one of the other two.
type News struct {
	Operation       telemetry.Operation
	Status          script.Status
	Believed, Epoch int64
	Unclaimed       []Part // granted for callers who had left: to be given back
	HasRoom         bool   // where a participant believed that there was no room for it
}

// Init makes a zero Shard that of a limit, of that name in Redis, at a node.
func (sh *Shard) Init(e *Env, home *Home, of Limit, ref script.ShardRef, n *node.Node, t *Terms) *Shard {
	sh.env, sh.Home, sh.Limit, sh.Node, sh.Ref, sh.Nonce = e, home, of, n, ref, chance.Uint64()
	sh.Terms, sh.pending.shard = &sh.own, sh
	sh.Terms.Store(t)
	return sh
}

// Tag is the hash tag of the shard's keys.
func (home *Home) Tag() string { return shard.Tag(home.Slot) }

// Room is what the shard holds at the most when nothing is in use: its share, or the part of the
// burst that goes with it.
func (sh *Shard) Room(r *script.PeekReply) int64 {
	t := sh.Terms.Load()
	if !sh.Bursty || r.Target == 0 || t == nil {
		return min(r.Share, r.Target)
	}
	burst := t.Most
	if r.Share < r.Target {
		return int64(float64(burst) * float64(r.Share) / float64(r.Target))
	}
	return burst
}

// Most is how many permits the shard can grant at once, as far as the layout says.
func (sh *Shard) Most() int64 { return sh.Terms.Load().Most }

// left reports whether the limit has no such shard any more, as far as the process knows: it has
// nothing for anybody, and callers go on under the layout that the limit has by then.
func (sh *Shard) left() bool { return sh.Most() == 0 }

// Expected is how many permits the shard has, as far as this process knows.
func (sh *Shard) Expected(now int64) int64 {
	free, heard := sh.Known.Free()
	if !heard || now >= sh.Known.ResetAt.Load() {
		return sh.Most()
	}
	return free
}

// Present is Expected, but nothing while the node is away.
func (sh *Shard) Present(now int64) int64 {
	if !sh.Node.Ready(sh.Slot) {
		return 0
	}
	return sh.Expected(now)
}

// elsewhere is what is free now on the other shards of the limit, as far as this process knows.
func elsewhere(sh *Shard, now int64) (n int64) {
	all := sh.Others.Load()
	if all == nil {
		return 0
	}
	for _, o := range *all {
		if o != sh {
			n += o.Present(now)
		}
	}
	return n
}

// Left is how many permits the shard would have left to give, as last heard and if all who wait for
// an answer are granted one. If it was not heard from it has its share.
func (sh *Shard) Left() int64 {
	free, heard := sh.Known.Free()
	if !heard {
		free = sh.Most()
	}
	return free - sh.Unanswered.Load()
}

// Replaces takes over from the Shard that stood for the same one before its node turned out to be
// called otherwise. If the shard has no data, that is a loss of memory, as it was used before.
// Calls under way get the new terms.
func (sh *Shard) Replaces(old *Shard) {
	sh.Known.usedAt.Store(old.Known.usedAt.Load())
	sh.Terms = old.Terms
}

// call is one call to a shard under way. Every call to a shard begins with begin and ends with
// Finish, and what it heard goes through heard or looked: so there is one place for the breaker,
// metrics and span (see node.Call), for what the process learns, and for what the limit must hear.
type call struct {
	node.Call
	shard     *Shard
	operation telemetry.Operation
}

// begin begins a call that goes without a batch. See node.Begin.
func (sh *Shard) begin(ctx context.Context, op telemetry.Operation) (context.Context, call, error) {
	about := telemetry.Call{Operation: op, Limiter: sh.Metrics, Shard: sh.Tag()}
	ctx, c, err := sh.Node.Begin(ctx, sh.Slot, about, nil)
	return ctx, call{c, sh, op}, err
}

// heard takes in what the shard said of itself and has free.
func (c *call) heard(t *Terms, received int64, r *script.TakeReply) {
	c.shard.Known.learn(c.Sent, received, c.Began, t, r)
	c.tell(t, r.Status, r.Epoch)
}

// tell lets the limit learn of another epoch or a loss.
func (c *call) tell(t *Terms, status script.Status, epoch int64) {
	if status != script.OK || epoch != t.Epoch {
		c.shard.Limit.Learned(c.shard, News{Operation: c.operation, Status: status, Believed: t.Epoch, Epoch: epoch})
	}
}

// looked takes in what a look at the shard has found.
func (c *call) looked(r *script.PeekReply) {
	if r.Free > 0 {
		c.shard.Known.open() // it was empty and got permits back, perhaps from a collection of another process
	}
	if r.Status != script.Absent {
		c.tell(c.shard.Terms.Load(), script.OK, r.Epoch)
	}
}

// Usable reports whether calls for permits may be made to the shard now: its node is in, and
// believed to answer.
func (sh *Shard) Usable() bool { return !sh.Terms.Load().bars(sh) && sh.Node.Reachable(sh.Slot) }

// bars reports whether the node of a shard is known to be out.
func (t *Terms) bars(sh *Shard) bool {
	return t.Fence != nil && t.Fence.Bars(sh.Site.Node, sh.Incarnation)
}

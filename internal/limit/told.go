package limit

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// recorded is a limit as its register and its shards ask and tell it something, and a key as its
// move does.
type recorded struct{ *Core }

// Wanted returns the limit as the code declares it.
func (c recorded) Wanted() register.Wanted { return c.Declaration().Wanted() }

// Layout returns the layout of the routes in force, nil if there are none. That of a key is the one
// that the record of its family gives it.
func (c recorded) Layout() *shard.Layout {
	if r := c.Known(); r != nil {
		return &r.Layout
	}
	return nil
}

// Adopt makes the layout the one this process works with, unless it has a newer one.
func (c recorded) Adopt(layout shard.Layout) error {
	p, err := c.plan(layout)
	if err != nil {
		return fmt.Errorf("%w: %w", register.ErrUnreadable, err)
	}
	return c.adopt(p)
}

// Propose makes an offer to a shard, without asking for permits.
func (c recorded) Propose(ctx context.Context, o *register.Offer) (reply script.TakeReply, err error) {
	proposal, err := c.proposal(o.Layout, o.Shard, o.Floor)
	if sh := c.ShardAt(o.Shard.Site()); sh == nil || !o.Forced && !sh.Node.Reachable(sh.Slot) {
		err = node.ErrAway
	} else if err == nil {
		t := &dispatch.Terms{Epoch: o.Layout.Epoch, Window: o.Layout.Span(), Proposal: proposal}
		reply, err = sh.Propose(ctx, t)
	}
	if err != nil {
		err = c.FailedAt(o.Shard.Site().Location, err)
	}
	return reply, err
}

// Moved takes in what came of a step of a key's move.
func (c recorded) Moved(s register.Step) {
	if s.Layout.Settled && c.Adopt(s.Layout) == nil {
		c.callers.Freed(true)
		return
	}
	if s.Raised {
		c.callers.Freed(false)
	}
	if s.Known {
		c.shut(s.Layout.Epoch, s.Stuck)
	}
}

// shut has the outage policy answer for a key while it is under the layout of this epoch, because
// of a shard that cannot be asked what is in use. With nil it opens the key.
func (c recorded) shut(epoch int64, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.Routes.Load()
	if r == nil || r.Layout.Epoch != epoch || r.Layout.Settled || (cause != nil) == (r.closed != nil) {
		return
	}
	next := c.newRoutes(r.Plan)
	if cause != nil {
		next.Shards, next.Order = nil, nil
		next.closed = fmt.Errorf("the key moves to another node: %w", cause)
	}
	c.Routes.Store(next)
	c.callers.Freed(true)
}

// Refresh has the limit's record read again in good time.
func (c *Core) Refresh() { c.RefreshAt(c.Process.Clock.Elapsed()) }

// RefreshAt does so at this time elapsed.
func (c *Core) RefreshAt(elapsed clock.Elapsed) {
	c.Record().RefreshAt(elapsed)
	if r := c.Routes.Load(); r != nil && r.Layout.Fence != nil {
		c.Process.Records.Fence.RefreshAt(elapsed)
	}
}

// Belief returns what a call relies on that works with the layout of this epoch.
func (c recorded) Belief(epoch int64, elapsed clock.Elapsed) dispatch.Belief {
	c.RefreshAt(elapsed)
	r := c.Record()
	return dispatch.Belief{Until: r.Believed(epoch, elapsed), Known: r.Age(), Expired: r.Expired(elapsed)}
}

// Confirm makes sure, by a read that began at that time elapsed or later, that the layout of this
// process may be relied on. It waits at most until ctx ends. A key takes over what follows from its
// family's record then: the layout may have become another one.
func (c recorded) Confirm(ctx context.Context, since clock.Elapsed) error {
	err := c.Record().ConfirmSince(ctx, since)
	if err == nil {
		c.Current()
	}
	return err
}

// Learned compares what a shard said with what the process believed, and gives back what was
// granted for callers who had left.
func (c recorded) Learned(sh *dispatch.Shard, n dispatch.News) {
	switch {
	case n.HasRoom:
		c.callers.Freed(true)
		return
	case n.Unclaimed != nil:
		c.callers.GiveBack(n.Unclaimed)
		return
	}
	if n.Status == script.Lost || n.Status == script.Fresh && c.Family == nil && n.Operation != telemetry.Propose {
		// Whatever the shard knew of a layout may be lost, and the record with it. Whoever declares
		// the limit next must find ours there: now, and not when this process happens to read it
		// again.
		c.Record().Soon()
	}
	if n.Status == script.Lost && (c.Family == nil || c.Family.hears(sh.Site.Node, c.Process.Now())) {
		c.Process.Config.Logger.Warn("shard had lost its memory",
			"limiter", c.Title(), "shard", sh.Tag(), "node", sh.Site.Node)
	}
	if r := c.Routes.Load(); n.Epoch > n.Believed && r != nil && n.Epoch > r.Layout.Epoch {
		c.Record().Behind(n.Epoch)
	}
}

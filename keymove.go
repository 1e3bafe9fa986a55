package shardlimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// keyMove moves the capacity of one key of a family to where it is to be. Nothing drives it: each
// step is part of a call for the key, in any process.
type keyMove struct {
	turn  chan struct{} // holds one token: one step at a time
	after atomic.Int64  // no step before that, on the client's clock
	epoch atomic.Int64  // the layout that was stepped through last
}

// follow makes a step of a key's move if it is time for one, and returns the table to use then.
// Calls that come before the first step has ended wait for it.
func (c *core) follow(ctx context.Context, t *table) *table {
	m := c.move.Load()
	if m == nil {
		c.move.CompareAndSwap(nil, &keyMove{turn: make(chan struct{}, 1)})
		m = c.move.Load()
	}
	if m.due(t, c.client.now()) && m.begin(ctx, t, c.client.cfg.CallTimeout/2) {
		if t = c.table.Load(); m.due(t, c.client.now()) { // else somebody was faster
			c.step(ctx, m, t.layout)
		}
		<-m.turn
	}
	return c.table.Load()
}

// due reports whether a step is to be made under the table at this time.
func (m *keyMove) due(t *table, now int64) bool {
	return !t.layout.Settled && (now >= m.after.Load() || m.epoch.Load() != t.layout.Epoch)
}

// begin takes the token, and waits for it if nothing is known of this layout.
func (m *keyMove) begin(ctx context.Context, t *table, most time.Duration) bool {
	select {
	case m.turn <- struct{}{}:
		return true
	default:
	}
	if m.epoch.Load() == t.layout.Epoch {
		return false
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case m.turn <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-late.C:
	}
	return false
}

// step asks the shards of an unsettled key what they hold, and raises those that may be raised.
func (c *core) step(caller context.Context, m *keyMove, layout shard.Layout) {
	ctx, cancel := context.WithTimeout(caller, c.client.cfg.CallTimeout/2)
	defer cancel()
	seen := make([]shard.Observation, len(layout.Shards))
	err := c.offer(ctx, layout, seen, nil)
	step := layout.Plan(seen)
	if slices.ContainsFunc(step.Raise, func(v int64) bool { return v > 0 }) {
		if e := c.offer(ctx, layout, seen, step.Raise); e != nil {
			err = e
		}
		step = layout.Plan(seen)
		c.ahead.Store(nil) // there is room where there was none
	}
	switch {
	case step.Superseded:
		for _, o := range seen {
			if o.Seen && o.Epoch > layout.Epoch {
				c.record().Behind(o.Epoch)
			}
		}
	case step.Done:
		if err = c.Adopt(layout.Settle()); err == nil {
			c.accounts.upset()
			return
		}
	}
	if caller.Err() != nil {
		return // it may be its fault that a shard did not answer
	}
	c.shut(layout, seen, err)
	m.after.Store(c.nextStep(layout, seen))
	m.epoch.Store(layout.Epoch)
}

// offer proposes the layout to its shards at once, with the floors if there are any, and notes
// what they hold. It returns why one did not answer.
func (c *core) offer(ctx context.Context, layout shard.Layout, seen []shard.Observation, floors []int64) error {
	var wg sync.WaitGroup
	failures := make([]error, len(layout.Shards))
	for i, s := range layout.Shards {
		floor := int64(0)
		if floors != nil {
			if floor = floors[i]; floor == 0 {
				continue
			}
		}
		l := c.laneTo(s)
		if l == nil || !l.Usable(c.client.now()) {
			failures[i] = &ShardError{Limiter: c.name, Shard: shard.Tag(s.Slot), Node: s.Node, Err: node.ErrAway}
			continue
		}
		wg.Go(func() {
			reply, err := c.Propose(ctx, &register.Offer{Layout: layout, Shard: s, Floor: floor, Forced: true})
			if err != nil {
				failures[i] = l.Fail(err)
				return
			}
			seen[i] = register.Observed(s, &reply)
		})
	}
	wg.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// shut has the outage policy answer for a key that has nothing where it is to be, because where it
// was cannot be asked: nobody knows what is in use there. Else it makes the key's shards usable.
func (c *core) shut(layout shard.Layout, seen []shard.Observation, cause error) {
	closed := cause != nil
	for i := range layout.Live() {
		closed = closed && seen[i].Share == 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.table.Load()
	if t == nil || t.layout.Epoch != layout.Epoch || t.layout.Settled || closed == (t.closed != nil) {
		return
	}
	next, err := c.newTable(t.layout, t.limit)
	if err != nil { // cannot be: it was made before
		return
	}
	if closed {
		next.lanes, next.order = nil, nil
		next.closed = fmt.Errorf("the key moves to another node: %w", cause)
	}
	c.table.Store(next)
	c.accounts.upset()
}

// nextStep is when a step can do more: when the first permit leaves a shard that gives its share
// up, but not more often than a driver looks.
func (c *core) nextStep(layout shard.Layout, seen []shard.Observation) int64 {
	now := c.client.now()
	next, waits := now, false
	for i, s := range layout.Shards {
		l := c.laneTo(s) // nil if the node was taken out meanwhile
		if o := seen[i]; l != nil && o.Seen && o.Share > s.Share {
			if at := l.FreeAt(); !waits || at < next {
				next, waits = at, true
			}
		}
	}
	rest := min(max(layout.Window/64, 2*time.Millisecond), 250*time.Millisecond)
	return max(next, now+int64(rest))
}

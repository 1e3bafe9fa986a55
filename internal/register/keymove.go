package register

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// Key is one key of a family, as its process uses it.
type Key interface {
	Shards
	// Layout is the one that the key has now by the family's record, as far as that was read.
	Layout() *shard.Layout
	// Moved takes in what came of a step.
	Moved(s Step)
}

// Step is what came of a step of a key's move.
type Step struct {
	Layout shard.Layout // under which it was made; settled if every shard has its share
	Raised bool         // there may be room where there was none
	Known  bool         // the caller had time to hear what the shards have
	// Stuck is why the outage policy has to answer: a shard cannot be asked what is in use.
	Stuck error
}

// Move moves the capacity of one key of a family to where it is to be. Nothing drives it: each
// step is part of a call for the key, in any process.
type Move struct {
	token chan struct{} // holds one token: one step at a time
	after atomic.Int64  // no step before that, on the client's clock
	epoch atomic.Int64  // the layout that was stepped through last
}

// NewMove returns a move of which no step was made.
func NewMove() *Move { return &Move{token: make(chan struct{}, 1)} }

// Follow makes a step of a key's move if it is time for one, once the record of the family has
// confirmed where the key is to be. Calls that come before the first step has ended wait for it.
//
// Of the call timeout, the record may take a half, the step what is left of three quarters, and the
// call itself has the rest.
func (m *Move) Follow(ctx context.Context, r *Reader, k Key) {
	t := k.Layout()
	if !m.due(t, r.now()) {
		return
	}
	within, cancel := context.WithTimeout(ctx, r.env.Nodes.CallTimeout*3/4)
	defer cancel()
	if !m.begin(within, t.Epoch) {
		return
	}
	defer func() { <-m.token }()
	doubt := r.confirmKey(within, k)
	if errors.Is(doubt, record.ErrBusy) {
		// Nobody knows that anything is wrong with Redis; the next call makes the step. It needs no
		// pause: a quarter of the call timeout or more has gone by in the queue.
		return
	}
	if within.Err() != nil {
		return // another call's step, or the caller, has left no time to ask a shard
	}
	if t = k.Layout(); m.due(t, r.now()) { // else somebody was faster
		m.step(within, ctx, r, k, *t, doubt)
	}
}

// confirmKey makes sure that a key has the layout that follows from the record of its family. Where
// keys were before is forgotten after a while. So a process that rested must not raise a shard
// under the layout that it knows: nobody who moves the key later would ask that shard.
func (r *Reader) confirmKey(ctx context.Context, k Key) error {
	for range 2 { // the family's layout may be replaced in between
		if err := r.ConfirmWithin(ctx); err != nil {
			return err
		}
		if r.Believed(k.Layout().Epoch, r.env.Nodes.Clock.Elapsed()) != 0 {
			return nil
		}
	}
	return errBehind
}

// due reports whether a step is to be made under the layout at this time.
func (m *Move) due(l *shard.Layout, now int64) bool {
	return !l.Settled && (now >= m.after.Load() || m.epoch.Load() != l.Epoch)
}

// begin takes the token, and waits for it if nothing is known of the layout of this epoch.
func (m *Move) begin(ctx context.Context, epoch int64) bool {
	select {
	case m.token <- struct{}{}:
		return true
	default:
	}
	if m.epoch.Load() == epoch {
		return false
	}
	select {
	case m.token <- struct{}{}:
		return true
	case <-ctx.Done():
	}
	return false
}

// step asks the shards of an unsettled key what they hold. Unless there is a doubt that the
// layout is the last one, it raises those that may be raised, and settles the layout.
func (m *Move) step(ctx, caller context.Context, r *Reader, k Key, layout shard.Layout, doubt error) {
	made, at := Step{Layout: layout}, newMover(r, k, layout)
	step, raised, errs := at.round(ctx, make([]int64, len(layout.Shards)), doubt == nil)
	if made.Raised = raised; step.Done && doubt == nil {
		made.Layout = layout.Settle(0)
	}
	if made.Known = caller.Err() == nil; made.Known { // else a shard may have had no time to answer
		made.Stuck = stuck(layout, at.seen, cmp.Or(append([]error{doubt}, errs...)...))
		m.after.Store(r.now() + int64(longestPause(layout.Window)))
		m.epoch.Store(layout.Epoch)
	}
	k.Moved(made)
}

// stuck returns why a key has nothing where it is to be: where it was cannot be asked, and nobody
// knows what is in use there. It is nil if the key has something.
func stuck(layout shard.Layout, seen []shard.Observation, cause error) error {
	for i := range layout.Live() {
		if seen[i].Share > 0 {
			return nil
		}
	}
	return cause
}

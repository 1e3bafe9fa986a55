package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// This file is about a shard that has no state: it begins with its share only if the call that
// finds it so relies on a layout that was confirmed, and comes in time.

// confirmTries is how often a call is sent to a shard that is absent: to learn the time of its
// node, to be told of another layout meanwhile, and to create the state.
const confirmTries = 4

// errAbsent ends an ask of a shard without state that could not be given its share. Another shard
// may be asked.
var errAbsent = errors.New("the shard has no state")

// errBarred is why a shard is not asked: others take over, or took over, what its node has.
var errBarred = errors.New("the shard's node is out")

// errUnconfirmed means that what a call relies on could not be read in time.
var errUnconfirmed = errors.New("what a call relies on could not be confirmed")

// Unconfirmed reports whether a call failed because what it relies on could not be confirmed.
func Unconfirmed(err error) bool { return errors.Is(err, errUnconfirmed) }

// serverTime returns a time elapsed as the shard's node tells it, or what stands for one that is
// not known.
func (sh *Shard) serverTime(until, now clock.Elapsed, unknown clock.ServerTime) clock.ServerTime {
	if until != 0 {
		if at, ok := sh.clock().At(until, now); ok && at > 0 {
			return at
		}
	}
	return unknown
}

func (sh *Shard) clock() *node.ServerClock { return sh.Node.ServerClock(sh.Slot) }

// expired reports whether the layout was confirmed too long ago.
func (sh *Shard) expired() bool { return sh.Limit.Belief(0, sh.env.Clock.Elapsed()).Expired }

// tell is what a call under these terms tells the shard of what it relies on.
func (sh *Shard) tell(t *Terms) script.Relied {
	now, used := sh.env.Clock.Elapsed(), sh.Known.usedAt.Load()
	believed := sh.Limit.Belief(t.Epoch, now)
	// Whether this process saw the shard's state so lately that it cannot have expired since: what
	// has an entry in its log lives a window longer, also while this machine is suspended.
	seen := used != 0 && time.Duration(int64(now)-used) < sh.Terms.Load().Window
	return script.Relied{Known: believed.Known, Seen: seen, Fence: sh.fence(t, now),
		Deadline: sh.serverTime(believed.Until, now, script.Unconfirmed)}
}

// refused is a time of any node that is over: a call that has it as its fence does nothing.
const refused = 1

// fence is until when a call under these terms may do anything, in the time of the shard's node; 0:
// it has no end.
func (sh *Shard) fence(t *Terms, now clock.Elapsed) clock.ServerTime {
	switch f := t.Fence; {
	case f == nil:
		return 0
	case t.bars(sh):
		return refused
	default:
		return sh.serverTime(f.Until(now), now, refused)
	}
}

// unsure reports whether it has to be confirmed first which nodes are in, or what the layout is of
// a shard that nobody tells of another one.
func (sh *Shard) unsure() bool {
	f := sh.Terms.Load().Fence
	return sh.Keyed && sh.expired() || f != nil && f.Until(sh.env.Clock.Elapsed()) == 0
}

// present makes a call under fixed terms, nil: those of the time. It makes the call again while the
// shard has no state and was given none, or was asked after the fence: it does what that takes in
// between, until what the call relies on is confirmed and the time of the node known. before is
// what a call was told that did nothing; nil: none was made.
func (sh *Shard) present(ctx context.Context, fixed *Terms, before *script.TakeReply,
	once func(*Terms) (*script.TakeReply, error)) error {
	if before == nil && fixed == nil {
		sh.reassure(ctx)
	}
	for tries := 1; ; {
		if before != nil {
			if err := sh.insist(ctx, cmp.Or(fixed, sh.Terms.Load()), before, tries); err != nil {
				return err
			}
			tries++
		}
		t := cmp.Or(fixed, sh.Terms.Load())
		reply, err := once(t)
		if err != nil || !t.absent(reply) {
			return err
		}
		before = reply
	}
}

// reassure has the layout confirmed if that was too long ago, for no more than half of a call. It
// is for a shard that nobody tells when the layout is another one: the process may have rested
// while the limit came to be in force elsewhere.
//
// If the record cannot be read, or not so soon, the call is made all the same, and those after it
// do not wait: the record is read on in the background. So a node that is away or slow does not
// take keys along whose shards are on others. What a shard was told decides there as ever. One that
// nobody told may grant until that reading ends, as while a process is cut off from the record: see
// docs/design/decisions/shards-and-families.md, "When the record of a family forgets".
//
// Which nodes are in has to be confirmed all the same: no shard would do anything without. If the
// time of the node is not known the shard refuses anyway, and that is confirmed after: see insist.
func (sh *Shard) reassure(ctx context.Context) {
	f, now := sh.Terms.Load().Fence, sh.env.Clock.Elapsed()
	if f != nil && f.Until(now) == 0 && sh.clock().Heard(now) {
		_ = f.ConfirmSince(ctx, 0)
	}
	if sh.Keyed && sh.expired() {
		within, cancel := context.WithTimeout(ctx, sh.env.CallTimeout/2)
		defer cancel()
		_ = sh.Limit.Confirm(within, 0)
	}
}

// insist returns nil if a call is to be made again to a shard that did nothing. What the call
// relied on is over by the clock of the node, unless something was read meanwhile. So it is read
// once more, whatever the clocks of this machine say: they may have stood still.
func (sh *Shard) insist(ctx context.Context, t *Terms, before *script.TakeReply, tries int) error {
	if tries == confirmTries {
		return fmt.Errorf("%w: the time of its node keeps changing", errAbsent)
	}
	now := sh.env.Clock.Elapsed()
	sh.clock().Learn(now, before.At)
	since := func(end clock.ServerTime) clock.Elapsed {
		if end > before.At {
			return 0
		}
		return now
	}
	f, relied := t.Fence, sh.tell(t)
	var err error
	if before.Status == script.Fenced {
		err = errBarred
		if f != nil && !t.bars(sh) {
			var both sync.WaitGroup
			if sh.Keyed { // it may well have no state: what that takes is done at the same time
				both.Go(func() { _ = sh.Limit.Confirm(ctx, since(relied.Deadline)) })
			}
			err = f.ConfirmSince(ctx, since(relied.Fence))
			both.Wait()
		}
	} else {
		err = sh.Limit.Confirm(ctx, since(relied.Deadline))
	}
	if err == nil && ctx.Err() != nil { // that took all its time
		err = clock.Ended(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: %w: %w", errAbsent, errUnconfirmed, err)
	}
	return nil
}

package dispatch

import (
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

// basis is what a call to a shard relies on: its terms, and until when they may be believed.
type basis struct {
	shard *Shard
	fixed *Terms // nil: those that the shard has at the time
}

func (b basis) terms() *Terms {
	if b.fixed != nil {
		return b.fixed
	}
	return b.shard.Terms.Load()
}

func (b basis) now() clock.Elapsed { return b.shard.env.Clock.Elapsed() }

func (b basis) clock() *node.ServerClock { return b.shard.Node.ServerClock(b.shard.Slot) }

// serverTime returns a time elapsed as the shard's node tells it, or what stands for one that is
// not known.
func (b basis) serverTime(until, now clock.Elapsed, unknown clock.ServerTime) clock.ServerTime {
	if until != 0 {
		if at, ok := b.clock().At(until, now); ok && at > 0 {
			return at
		}
	}
	return unknown
}

// expired reports whether the layout was confirmed too long ago.
func (b basis) expired() bool { return b.shard.Limit.Belief(0, b.now()).Expired }

// tell is what a call tells the shard of what it relies on.
func (b basis) tell() script.Relied {
	now, used := b.now(), b.shard.Known.usedAt.Load()
	believed := b.shard.Limit.Belief(b.terms().Epoch, now)
	// Whether this process saw the shard's state so lately that it cannot have expired since: what
	// has an entry in its log lives a window longer, also while this machine is suspended.
	seen := used != 0 && time.Duration(int64(now)-used) < b.shard.Terms.Load().Window
	return script.Relied{Known: believed.Known, Seen: seen, Fence: b.fence(),
		Deadline: b.serverTime(believed.Until, now, script.Unconfirmed)}
}

// refused is a time of any node that is over: a call that has it as its fence does nothing.
const refused = 1

// fence is until when the call may do anything, in the time of the shard's node; 0: it has no end.
func (b basis) fence() clock.ServerTime {
	f := b.terms().Fence
	switch {
	case f == nil:
		return 0
	case b.terms().bars(b.shard):
		return refused
	}
	now := b.now()
	return b.serverTime(f.Until(now), now, refused)
}

// unfenced reports whether it has to be confirmed first which nodes are in.
func (b basis) unfenced() bool {
	f := b.shard.Terms.Load().Fence
	return f != nil && f.Until(b.now()) == 0
}

// told is what a shard said to a call that did nothing, and when, in the time of its node. The zero
// value is that of a shard that was not asked.
type told struct {
	status script.Status
	at     clock.ServerTime
}

// present makes a call, and again while the shard has no state and was given none, or was asked
// after the fence: it does what that takes in between, until what the call relies on is confirmed
// and the time of the node known.
func (b basis) present(ctx context.Context, before told,
	once func(basis) (status script.Status, at clock.ServerTime, err error)) error {
	tries := 1
	switch {
	case before != told{}:
		if err := b.insist(ctx, before, tries); err != nil {
			return err
		}
		tries++
	case b.fixed == nil:
		b.reassure(ctx)
	}
	for ; ; tries++ {
		under := basis{b.shard, b.terms()}
		status, at, err := once(under)
		if err != nil || !unserved(status) || under.fixed.Epoch == 0 {
			return err
		}
		if err := b.insist(ctx, told{status, at}, tries); err != nil {
			return err
		}
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
func (b basis) reassure(ctx context.Context) {
	sh, f := b.shard, b.terms().Fence
	if f != nil && f.Until(b.now()) == 0 && b.clock().Heard(b.now()) {
		_ = f.ConfirmSince(ctx, 0)
	}
	if sh.Keyed && b.expired() {
		within, cancel := context.WithTimeout(ctx, sh.env.CallTimeout/2)
		defer cancel()
		_ = sh.Limit.Confirm(within, 0)
	}
}

// insist returns nil if a call is to be made again to a shard that did nothing. What the call
// relied on is over by the clock of the node, unless something was read meanwhile. So it is read
// once more, whatever the clocks of this machine say: they may have stood still.
func (b basis) insist(ctx context.Context, before told, tries int) error {
	sh := b.shard
	if tries == confirmTries {
		return fmt.Errorf("%w: the time of its node keeps changing", errAbsent)
	}
	now := b.now()
	b.clock().Learn(now, before.at)
	since := func(end clock.ServerTime) clock.Elapsed {
		if end > before.at {
			return 0
		}
		return now
	}
	f, relied := b.terms().Fence, b.tell()
	var err error
	if before.status == script.Fenced {
		err = errBarred
		if f != nil && !b.terms().bars(sh) {
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

package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
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

// unconfirmedError is why: nobody could tell what the share is.
type unconfirmedError struct{ cause error }

func (e *unconfirmedError) Error() string {
	return fmt.Sprintf("what a call relies on could not be confirmed: %v", e.cause)
}
func (e *unconfirmedError) Unwrap() error { return e.cause }

// deadline is until when the shard may begin with a share under a layout of this epoch, in the time
// of its node.
func (l *Lane) deadline(epoch int64) clock.ServerTime {
	now := l.env.Clock.Elapsed()
	return l.told(l.Limit.Belief(epoch, now).Until, now, script.Unconfirmed)
}

// told is a time elapsed as the shard's node tells it, or what stands for one that is not known.
func (l *Lane) told(until, now clock.Elapsed, unknown clock.ServerTime) clock.ServerTime {
	if until != 0 {
		if at, ok := l.Node.ServerClock(l.Slot).At(until, now); ok && at > 0 {
			return at
		}
	}
	return unknown
}

// expired reports whether the layout was confirmed too long ago.
func (l *Lane) expired() bool { return l.Limit.Belief(0, l.env.Clock.Elapsed()).Expired }

// basis is what a call under these terms tells the shard of what it relies on.
func (l *Lane) basis(t *Terms) (known time.Duration, seen bool, deadline, fence clock.ServerTime) {
	now := l.env.Clock.Elapsed()
	b := l.Limit.Belief(t.Epoch, now)
	return b.Known, l.remembers(now), l.told(b.Until, now, script.Unconfirmed), l.fence(t)
}

// refused is a time of any node that is over: a call that has it as its fence does nothing.
const refused = 1

// fence is until when a call under these terms may do anything, in the time of the shard's node; 0:
// it has no end.
func (l *Lane) fence(t *Terms) clock.ServerTime {
	if t.Fence == nil {
		return 0
	}
	now := l.env.Clock.Elapsed()
	if t.Fence.Bars(l.Home, l.Life) {
		return refused
	}
	return l.told(t.Fence.Until(now), now, refused)
}

// unfenced reports whether it has to be confirmed first which nodes are in.
func (l *Lane) unfenced() bool {
	t := l.Terms.Load()
	return t.Fence != nil && t.Fence.Until(l.env.Clock.Elapsed()) == 0
}

// told is what a shard said to a call that did nothing, and when, in the time of its node. The zero
// value is that of a shard that was not asked.
type told struct {
	status script.Status
	at     clock.ServerTime
}

// present makes a call, and again while the shard has no state and was given none, or was asked
// after the fence: it does what that takes in between, until what the call relies on is confirmed
// and the time of the node known. fixed are the terms, or nil for those of the lane.
func (l *Lane) present(ctx context.Context, fixed *Terms, before told,
	once func(*Terms) (status script.Status, at clock.ServerTime, err error)) error {
	tries := 1
	switch {
	case before != told{}:
		if err := l.insist(ctx, fixed, before, tries); err != nil {
			return err
		}
		tries++
	case fixed == nil:
		l.reassure(ctx)
	}
	for ; ; tries++ {
		t := fixed
		if t == nil {
			t = l.Terms.Load()
		}
		status, at, err := once(t)
		if err != nil || !unserved(status) || t.Epoch == 0 {
			return err
		}
		if err := l.insist(ctx, fixed, told{status, at}, tries); err != nil {
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
func (l *Lane) reassure(ctx context.Context) {
	if l.unfenced() && l.Node.ServerClock(l.Slot).Heard(l.env.Clock.Elapsed()) {
		_ = l.Terms.Load().Fence.ConfirmSince(ctx, 0)
	}
	if l.Keyed && l.expired() {
		within, cancel := context.WithTimeout(ctx, l.env.CallTimeout/2)
		defer cancel()
		_ = l.Limit.Confirm(within, 0)
	}
}

// insist returns nil if a call is to be made again to a shard that did nothing: under fixed terms,
// or with nil those of the lane. What the call relied on is over by the clock of the node, unless
// something was read meanwhile. So it is read once more, whatever the clocks of this machine say:
// they may have stood still.
func (l *Lane) insist(ctx context.Context, fixed *Terms, before told, tries int) error {
	if tries == confirmTries {
		return &notSentError{cause: errAbsent, reason: errors.New("the time of its node keeps changing")}
	}
	now := l.env.Clock.Elapsed()
	l.Node.ServerClock(l.Slot).Learn(now, before.at)
	since := func(end clock.ServerTime) clock.Elapsed {
		if end > before.at {
			return 0
		}
		return now
	}
	t := fixed
	if t == nil {
		t = l.Terms.Load()
	}
	var err error
	if before.status == script.Fenced {
		err = errBarred
		if t.Fence != nil && !t.Fence.Bars(l.Home, l.Life) {
			var both sync.WaitGroup
			if l.Keyed { // it may well have no state: what that takes is done at the same time
				both.Go(func() { _ = l.Limit.Confirm(ctx, since(l.deadline(t.Epoch))) })
			}
			err = t.Fence.ConfirmSince(ctx, since(l.fence(t)))
			both.Wait()
		}
	} else {
		err = l.Limit.Confirm(ctx, since(l.deadline(t.Epoch)))
	}
	if err == nil && ctx.Err() != nil { // that took all its time
		err = clock.Ended(ctx)
	}
	if err != nil {
		return &notSentError{cause: errAbsent, reason: &unconfirmedError{err}}
	}
	return nil
}

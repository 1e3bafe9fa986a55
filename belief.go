package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/script"
)

// This file is about what a process may rely on, and for how long.
//
// A shard with state obeys its stored epoch, whatever a process believes. A shard without state has
// only the word of its caller for the share it begins with. So that word is good for one epoch and
// for a time: the record held a layout of that epoch when it was read less than confirmFor ago. A
// call carries the end of that time, in the time of the shard's node, and the script creates no share
// after it, however long the call was on its way. Whoever replaces the record can tell from that when
// the last share of the old layout can have come into being.
const (
	confirmFor = 5 * time.Second
	// A family's keys come and go all the time, so its record is read again before that is over.
	confirmFamilyEvery = confirmFor / 3
	// The record of a limit is read to be counted as a participant and to keep it alive.
	confirmLimitEvery = 15 * time.Second
	// confirmPause is for how long a record that could not be read is not asked for again by calls.
	confirmPause = time.Second
	// confirmTries is how often a call is sent to a shard that is absent: to learn the time of its
	// node, to be told of another layout meanwhile, and to create the state.
	confirmTries = 4
)

// belief is that the limit's record holds a layout of this epoch.
type belief struct {
	epoch int64
	until int64 // on the client's clock that goes on while the machine is suspended
}

// believe notes that the record held a layout of this epoch when it was read or written; sent is when that began.
func (r *register) believe(epoch, sent int64) {
	r.belief.Store(&belief{epoch: epoch, until: sent + int64(confirmFor)})
}

// unsentAfter is why a call is not made any more after its layout was confirmed: that took all its time.
func unsentAfter(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return &notSentError{cause: errAbsent, reason: &unconfirmedError{context.Cause(ctx)}}
}

// believed returns until when the epoch may be relied on, 0 if it may not: also if a shard has told of a later one.
func (r *register) believed(epoch, elapsed int64) int64 {
	b := r.belief.Load()
	if b == nil || b.epoch != epoch || r.highest.Load() > epoch || elapsed >= b.until {
		return 0
	}
	return b.until
}

// confirm makes sure that the layout of this process is the one in the record, or becomes it, at most until ctx ends.
func (r *register) confirm(ctx context.Context) error {
	if r.current() {
		return nil
	}
	if failed := r.failedAt.Load(); failed != 0 && r.core.client.now()-failed < int64(confirmPause) {
		r.syncSoon()
		return r.absence()
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	defer r.end()
	if r.current() { // another call has done it meanwhile
		return nil
	}
	err := r.syncInTurn(ctx)
	if err != nil && ctx.Err() == nil {
		r.fails(err)
	}
	return err
}

// current reports whether the layout of this process may be relied on.
func (r *register) current() bool {
	t := r.core.table.Load()
	return t != nil && r.believed(t.layout.Epoch, r.core.client.elapsed()) != 0
}

// errAbsent ends an ask of a shard without state that could not be given its share. Another shard may be asked.
var errAbsent = errors.New("the shard has no state")

// unconfirmedError is why: nobody could tell what the share is.
type unconfirmedError struct{ cause error }

func (e *unconfirmedError) Error() string {
	return fmt.Sprintf("the limit's layout could not be confirmed: %v", e.cause)
}
func (e *unconfirmedError) Unwrap() error { return e.cause }

// deadline is until when the shard may begin with a share under a layout of this epoch, in the time of its node.
func (l *lane) deadline(epoch int64) int64 {
	now := l.core.client.elapsed()
	until := l.core.record().believed(epoch, now)
	if until == 0 {
		return script.Unconfirmed
	}
	told, ok := l.node.ServerClock(l.slot).At(until, now)
	if !ok || told <= 0 {
		return script.Unconfirmed
	}
	return told
}

// insist is called where a shard had no state and was given no share. It returns nil if the call is to
// be made again, after it has done what it takes: the layout is confirmed and the time of the node known.
func (l *lane) insist(ctx context.Context, reply *script.TakeReply, tries int) error {
	if tries == confirmTries {
		return &notSentError{cause: errAbsent, reason: errors.New("the time of its node keeps changing")}
	}
	l.node.ServerClock(l.slot).Learn(l.core.client.elapsed(), reply.At)
	if err := l.core.record().confirm(ctx); err != nil {
		return &notSentError{cause: errAbsent, reason: &unconfirmedError{err}}
	}
	l.core.current() // a key's layout follows from its family's, which may have become another one
	return nil
}

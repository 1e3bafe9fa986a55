package dispatch

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/shard"
)

// Errors that end an ask after which another shard may be asked: it was not sent, or what it may
// have been granted counts as lost.
var (
	// ErrOverloaded: it could not be sent so soon that its answer would come in time.
	ErrOverloaded = errors.New("this process asks for more than can be answered within the call timeout: " +
		"call less at once, or run more processes")
	errBehind = errors.New("the script call before it failed")
)

// errDissolved sends the callers of a batch to the next one. They never see it.
var errDissolved = errors.New("the batch was dissolved")

// pending is the batches of one shard. Asks that arrive while a script call for the shard is under
// way wait, and go together in the next one, however many callers there are. A shard with asks that
// wait stands in the send queue of its node, whose requests carry those of many shards. No lock is
// held while Redis is waited for.
type pending struct {
	mu         sync.Mutex
	Unanswered atomic.Int64  // asks that wait or are under way
	head       *batch        // is sent next; nil if nobody waits
	tail       *batch        // takes newcomers: head, unless that is full
	underWay   int32         // batches sent and not answered
	asked      atomic.Int64  // permits that these want
	moved      int64         // when one was answered last, or sent while no other one was away
	queued     bool          // in the send queue
	tickets    atomic.Uint64 // given so far
	queue      atomic.Pointer[sendQueue]
}

// join adds the ask to the batch that is sent next, and keeps the lock: the caller is to be among
// the sleepers before the batch can be sent. It reports false, and does not keep the lock, if what
// waits already for the shard's node is more than can be sent in time.
func (sh *Shard) join(a *Ask) bool {
	sh.mu.Lock()
	if sh.tail != nil && sh.tail.take(a) {
		sh.Unanswered.Add(1)
		return true
	}
	now, q := sh.env.Clock.Now(), sh.sendQueue()
	if sh.head != nil && q.behind(sh.head.opened, now) || q.overdue(now) {
		sh.mu.Unlock()
		q.over.sheds(now, int64(q.env.CallTimeout))
		return false
	}
	b := newBatch(sh)
	b.opened = now
	if sh.tail == nil {
		sh.head = b
	} else {
		sh.tail.next = b
	}
	sh.tail = b
	b.take(a)
	sh.Unanswered.Add(1)
	if sh.sendNext(now, false); !sh.queued { // the batch before it may take a round trip
		wait := min(q.knownRTT()/farBatches, q.maxAge()/2)
		if wait == 0 {
			wait = int64(sh.env.CallTimeout / 16)
		}
		if wait >= int64(longRTT/farBatches) && !q.slow.Load() {
			time.AfterFunc(time.Duration(wait), sh.sendAnyway)
		}
	}
	return true
}

// sendNext has what waits sent, unless it had better wait for a batch that is under way: then more
// callers go together. late: it has waited for a while. sh.mu is held.
func (sh *Shard) sendNext(now int64, late bool) {
	if sh.head == nil || sh.queued {
		return
	}
	q := sh.sendQueue()
	switch rtt, few := q.knownRTT(), sh.underWay < farBatches; {
	case sh.underWay == 0:
	case sh.Known.contended.Load(): // then calls cost most, and permits are what is short
		return
	case rtt == 0:
		if !late || !few {
			return
		}
	case !q.boundByRTT(), now-sh.moved > 2*rtt, !late && !few: // near or slow; silent; enough under way
		return
	}
	sh.queued = true
	q.add(waiting{shard: sh, since: sh.head.opened})
}

// sendAnyway has what waits sent although others are under way.
func (sh *Shard) sendAnyway() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.sendNext(sh.env.Clock.Now(), true)
}

// quit takes out an ask whose caller leaves before the batch was answered. sh.mu is held.
func (sh *Shard) quit(a *Ask) {
	a.batch.leave(a)
	if a.unsent = !a.batch.sent; a.unsent {
		sh.Unanswered.Add(-1)
	}
}

// nextBatch takes the batch that is sent next; nil if nobody waits. A batch for which some call has
// waited for so long that the answer could come after its timeout is dissolved: its callers find
// another, if there is time.
func (sh *Shard) nextBatch() *batch {
	for {
		now := sh.env.Clock.Now()
		sh.mu.Lock()
		sh.queued = false
		b := sh.head
		if b == nil {
			sh.mu.Unlock()
			return nil
		}
		sh.head, b.next = b.next, nil
		if sh.head == nil {
			sh.tail = nil
		}
		if b.calls() == 0 {
			sh.mu.Unlock()
			continue
		}
		if sh.underWay++; sh.underWay == 1 {
			sh.moved = now
		}
		b.sent, b.number = true, sh.tickets.Add(1)
		sh.asked.Add(b.wanted())
		sh.mu.Unlock()
		if !sh.sendQueue().tooOld(now - b.oldest) {
			return b
		}
		sh.answer(b, nil, errDissolved)
	}
}

// deny answers a batch without asking. The call before it has found that nothing is free for a
// while, or not for these participants; or the limit has left the shard.
func (sh *Shard) deny(b *batch, now int64) {
	b.now, b.retry, b.rest = now, UnknownRetry, elsewhere(sh, now) // from what is known of all shards
	sh.answer(b, make([]int64, len(b.classes)), nil)
}

// answer wakes everybody in a batch. asks are those granted of each of its groups, or err tells why
// there are none. If others wait by then, the shard is queued again.
func (sh *Shard) answer(b *batch, asks []int64, err error) {
	sh.mu.Lock()
	lost := int64(0)
	if b.err = err; err == nil {
		lost = b.grant(asks)
	}
	sh.Unanswered.Add(-b.calls())
	b.over.Store(true)
	if b.sent {
		now := sh.env.Clock.Now()
		sh.underWay--
		sh.asked.Add(-b.wanted())
		if b.at != 0 { // the shard has answered
			sh.moved = now
		}
		sh.sendNext(now, false)
	}
	sh.mu.Unlock()
	if lost > 0 {
		// Nobody uses it, and it would be missing for a whole window. This ends soon.
		go sh.Limit.Learned(sh, News{Unclaimed: b.unclaimed()})
	}
	if b.answered != nil {
		close(b.answered)
	}
	b.crowd.Broadcast()
}

// endWaiting ends the asks that wait behind a call that failed. They were not sent.
func (sh *Shard) endWaiting(cause error) {
	sh.mu.Lock()
	b := sh.head
	sh.head, sh.tail = nil, nil
	sh.mu.Unlock()
	for b != nil {
		next, err := b.next, fmt.Errorf("%w: %w", errBehind, cause)
		sh.answer(b, nil, err)
		b = next
	}
}

// sendQueue returns the queue that the batches leave from.
func (sh *Shard) sendQueue() *sendQueue {
	part := whole
	if sh.Node.Spread() {
		part = sh.Slot * clusterParts / shard.Slots
	}
	q := sh.queue.Load()
	if q == nil || q.part != part {
		q = sh.Node.Kept(part, func() any {
			return &sendQueue{env: sh.env, part: part, capacity: capacity{mostLoad: firstReach * maxLoad}}
		}).(*sendQueue)
		sh.queue.Store(q)
	}
	return q
}

// ready reports whether a batch can share a request. Else it was answered, or goes by itself.
func (sh *Shard) ready(b *batch) bool {
	now := sh.env.Clock.Now()
	switch {
	case !sh.Node.Ready(sh.Slot): // since they joined, others were not answered
		away := sh.Node.Away(sh.Slot)
		sh.answer(b, nil, fmt.Errorf("%w: %w", errBehind, away))
		sh.endWaiting(away)
	case sh.left(), b.singles() && (sh.Known.Shut(now) || b.heldBack(now)):
		sh.deny(b, now)
	case sh.unsure():
		go sh.sendSlowly(b, nil)
	default:
		return true
	}
	return false
}

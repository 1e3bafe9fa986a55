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

// pending is the batches of one shard. Asks that arrive while a script call with
// asks for the shard is in flight wait and go together in the next one, however many callers there
// are. A lane with asks that wait stands in the outbox of its node, whose flights carry those of
// many shards. No lock is held while Redis is waited for.
type pending struct {
	mu       sync.Mutex
	Waiting  atomic.Int64  // asks that wait or are in flight
	head     *batch        // departs next; nil if nobody waits
	tail     *batch        // takes newcomers: head, unless that is full
	away     int32         // batches that have departed and not landed
	asked    atomic.Int64  // permits that these want
	moved    int64         // when one was answered last, or departed while no other one was away
	boxed    bool          // in the outbox
	departed atomic.Uint64 // batches so far; makes tickets unique
	lane     *Lane
	box      atomic.Pointer[outbox]
}

// join puts the ask on the batch that departs next, and keeps the lane's lock: the caller is to be
// among the sleepers before the batch can depart. It reports false, and does not keep the lock, if
// what waits already for the lane's node is more than can be sent in time.
func (q *pending) join(a *Ask) bool {
	l := q.lane
	q.mu.Lock()
	if q.tail != nil && q.tail.take(a) {
		q.Waiting.Add(1)
		return true
	}
	now, o := l.env.Clock.Now(), l.outbox()
	if q.head != nil && o.behind(q.head.opened, now) || o.overdue(now) {
		q.mu.Unlock()
		o.sheds(now)
		return false
	}
	b := newBatch(l)
	b.opened = now
	if q.tail == nil {
		q.head = b
	} else {
		q.tail.next = b
	}
	q.tail = b
	b.take(a)
	q.Waiting.Add(1)
	if q.goesOn(now, false); !q.boxed { // nothing may land for all of the way
		wait := min(o.trusted()/farBatches, o.boarding()/2)
		if wait == 0 {
			wait = int64(l.env.CallTimeout / 16)
		}
		if wait >= int64(longWay/farBatches) && !o.slow.Load() {
			time.AfterFunc(time.Duration(wait), q.goesOnAnyway)
		}
	}
	return true
}

// goesOn has what waits depart, unless it had better wait for a batch that is under way: then more
// callers go together. late: it has waited for a while. q.mu is held.
func (q *pending) goesOn(now int64, late bool) {
	if q.head == nil || q.boxed {
		return
	}
	l, o := q.lane, q.lane.outbox()
	switch way, few := o.trusted(), q.away < farBatches; {
	case q.away == 0:
	case l.Known.contended.Load(): // then calls cost most, and permits are what is short
		return
	case way == 0:
		if !late || !few {
			return
		}
	case !o.waitsForTheWay(), now-q.moved > 2*way, !late && !few: // short or slow, silent, enough
		return
	}
	q.boxed = true
	o.add(waiting{lane: l, since: q.head.opened})
}

// goesOnAnyway has what waits depart although others are under way.
func (q *pending) goesOnAnyway() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.goesOn(q.lane.env.Clock.Now(), true)
}

// quit is for an ask whose caller leaves before the batch has landed. l.mu is held.
func (q *pending) quit(a *Ask) {
	a.batch.leave(a)
	if a.unsent = !a.batch.sent; a.unsent {
		q.Waiting.Add(-1)
	}
}

// depart takes the batch that goes next; nil if nobody waits. A batch for which some call has
// waited for so long that the answer could come after its timeout is dissolved: its callers find
// another, if there is time.
func (q *pending) depart() *batch {
	l := q.lane
	for {
		now := l.env.Clock.Now()
		q.mu.Lock()
		q.boxed = false
		b := q.head
		if b == nil {
			q.mu.Unlock()
			return nil
		}
		q.head, b.next = b.next, nil
		if q.head == nil {
			q.tail = nil
		}
		if b.calls() == 0 {
			q.mu.Unlock()
			continue
		}
		if q.away++; q.away == 1 {
			q.moved = now
		}
		b.sent, b.number = true, q.departed.Add(1)
		q.asked.Add(b.wanted())
		q.mu.Unlock()
		if !l.outbox().tooOld(now - b.oldest) {
			return b
		}
		q.land(b, nil, errDissolved)
	}
}

// deny answers a batch that boarded while the call before it was under way, which has
// found that nothing is free for a while, or not for those on board: to ask again would be in vain.
// So it is where the limit has left the shard.
func (q *pending) deny(b *batch, now int64) {
	l := q.lane
	b.now, b.retry, b.rest = now, UnknownRetry, elsewhere(l, now) // from what is known of all shards
	q.land(b, make([]int64, len(b.classes)), nil)
}

// land wakes everybody on board. asks are those granted of each of its groups, or err tells
// why there are none. A lane where others wait by then goes into the outbox.
func (q *pending) land(b *batch, asks []int64, err error) {
	l := q.lane
	q.mu.Lock()
	lost := int64(0)
	if b.err = err; err == nil {
		lost = b.grant(asks)
	}
	q.Waiting.Add(-b.calls())
	b.over.Store(true)
	if b.sent {
		now := l.env.Clock.Now()
		q.away--
		q.asked.Add(-b.wanted())
		if b.at != 0 { // the shard has answered
			q.moved = now
		}
		q.goesOn(now, false)
	}
	q.mu.Unlock()
	if lost > 0 {
		// Nobody uses it, and it would be missing for a whole window. This ends soon.
		go l.Limit.Learned(l, News{Unclaimed: b.unclaimed()})
	}
	if b.landed != nil {
		close(b.landed)
	}
	b.crowd.Broadcast()
}

// endWaiting ends the asks that wait behind a call that failed. They were not sent.
func (q *pending) endWaiting(cause error) {
	q.mu.Lock()
	b := q.head
	q.head, q.tail = nil, nil
	q.mu.Unlock()
	for b != nil {
		next, err := b.next, fmt.Errorf("%w: %w", errBehind, cause)
		q.land(b, nil, err)
		b = next
	}
}

// outbox is where the lane's batches leave from.
func (q *pending) outbox() *outbox {
	l := q.lane
	part := whole
	if l.Node.Spread() {
		part = l.Slot * clusterParts / shard.Slots
	}
	o := q.box.Load()
	if o == nil || o.part != part {
		o = l.Node.Kept(part, func() any {
			return &outbox{env: l.env, part: part, capacity: capacity{most: firstReach * maxLoad}}
		}).(*outbox)
		q.box.Store(o)
	}
	return o
}

// ready reports whether a batch can fly with others. Else it was answered, or goes by itself.
func (q *pending) ready(b *batch) bool {
	l := q.lane
	now := l.env.Clock.Now()
	switch {
	case !l.Node.Ready(l.Slot): // since they joined, others were not answered
		away := l.Node.Away(l.Slot)
		q.land(b, nil, fmt.Errorf("%w: %w", errBehind, away))
		q.endWaiting(away)
	case l.left(), b.singles() && (l.Known.Shut(now) || b.heldBack(now)):
		q.deny(b, now)
	case l.Keyed && basis{lane: l}.expired(), basis{lane: l}.unfenced():
		go l.detour(b, told{})
	default:
		return true
	}
	return false
}

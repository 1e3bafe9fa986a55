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
	shard      *Shard
	queue      atomic.Pointer[sendQueue]
}

// join adds the ask to the batch that is sent next, and keeps the lock: the caller is to be among
// the sleepers before the batch can be sent. It reports false, and does not keep the lock, if what
// waits already for the shard's node is more than can be sent in time.
func (p *pending) join(a *Ask) bool {
	sh := p.shard
	p.mu.Lock()
	if p.tail != nil && p.tail.take(a) {
		p.Unanswered.Add(1)
		return true
	}
	now, q := sh.env.Clock.Now(), sh.sendQueue()
	if p.head != nil && q.behind(p.head.opened, now) || q.overdue(now) {
		p.mu.Unlock()
		q.over.sheds(now, int64(q.env.CallTimeout))
		return false
	}
	b := newBatch(sh)
	b.opened = now
	if p.tail == nil {
		p.head = b
	} else {
		p.tail.next = b
	}
	p.tail = b
	b.take(a)
	p.Unanswered.Add(1)
	if p.sendNext(now, false); !p.queued { // the batch before it may take a round trip
		wait := min(q.knownRTT()/farBatches, q.maxAge()/2)
		if wait == 0 {
			wait = int64(sh.env.CallTimeout / 16)
		}
		if wait >= int64(longRTT/farBatches) && !q.slow.Load() {
			time.AfterFunc(time.Duration(wait), p.sendAnyway)
		}
	}
	return true
}

// sendNext has what waits sent, unless it had better wait for a batch that is under way: then more
// callers go together. late: it has waited for a while. p.mu is held.
func (p *pending) sendNext(now int64, late bool) {
	if p.head == nil || p.queued {
		return
	}
	sh, q := p.shard, p.shard.sendQueue()
	switch rtt, few := q.knownRTT(), p.underWay < farBatches; {
	case p.underWay == 0:
	case sh.Known.contended.Load(): // then calls cost most, and permits are what is short
		return
	case rtt == 0:
		if !late || !few {
			return
		}
	case !q.boundByRTT(), now-p.moved > 2*rtt, !late && !few: // near or slow; silent; enough under way
		return
	}
	p.queued = true
	q.add(waiting{shard: sh, since: p.head.opened})
}

// sendAnyway has what waits sent although others are under way.
func (p *pending) sendAnyway() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sendNext(p.shard.env.Clock.Now(), true)
}

// quit takes out an ask whose caller leaves before the batch was answered. p.mu is held.
func (p *pending) quit(a *Ask) {
	a.batch.leave(a)
	if a.unsent = !a.batch.sent; a.unsent {
		p.Unanswered.Add(-1)
	}
}

// nextBatch takes the batch that is sent next; nil if nobody waits. A batch for which some call has
// waited for so long that the answer could come after its timeout is dissolved: its callers find
// another, if there is time.
func (p *pending) nextBatch() *batch {
	sh := p.shard
	for {
		now := sh.env.Clock.Now()
		p.mu.Lock()
		p.queued = false
		b := p.head
		if b == nil {
			p.mu.Unlock()
			return nil
		}
		p.head, b.next = b.next, nil
		if p.head == nil {
			p.tail = nil
		}
		if b.calls() == 0 {
			p.mu.Unlock()
			continue
		}
		if p.underWay++; p.underWay == 1 {
			p.moved = now
		}
		b.sent, b.number = true, p.tickets.Add(1)
		p.asked.Add(b.wanted())
		p.mu.Unlock()
		if !sh.sendQueue().tooOld(now - b.oldest) {
			return b
		}
		p.answer(b, nil, errDissolved)
	}
}

// deny answers a batch without asking. The call before it has found that nothing is free for a
// while, or not for these participants; or the limit has left the shard.
func (p *pending) deny(b *batch, now int64) {
	sh := p.shard
	b.now, b.retry, b.rest = now, UnknownRetry, elsewhere(sh, now) // from what is known of all shards
	p.answer(b, make([]int64, len(b.classes)), nil)
}

// answer wakes everybody in a batch. asks are those granted of each of its groups, or err tells why
// there are none. If others wait by then, the shard is queued again.
func (p *pending) answer(b *batch, asks []int64, err error) {
	sh := p.shard
	p.mu.Lock()
	lost := int64(0)
	if b.err = err; err == nil {
		lost = b.grant(asks)
	}
	p.Unanswered.Add(-b.calls())
	b.over.Store(true)
	if b.sent {
		now := sh.env.Clock.Now()
		p.underWay--
		p.asked.Add(-b.wanted())
		if b.at != 0 { // the shard has answered
			p.moved = now
		}
		p.sendNext(now, false)
	}
	p.mu.Unlock()
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
func (p *pending) endWaiting(cause error) {
	p.mu.Lock()
	b := p.head
	p.head, p.tail = nil, nil
	p.mu.Unlock()
	for b != nil {
		next, err := b.next, fmt.Errorf("%w: %w", errBehind, cause)
		p.answer(b, nil, err)
		b = next
	}
}

// sendQueue returns the queue that the batches leave from.
func (p *pending) sendQueue() *sendQueue {
	sh := p.shard
	part := whole
	if sh.Node.Spread() {
		part = sh.Slot * clusterParts / shard.Slots
	}
	q := p.queue.Load()
	if q == nil || q.part != part {
		q = sh.Node.Kept(part, func() any {
			return &sendQueue{env: sh.env, part: part, capacity: capacity{mostLoad: firstReach * maxLoad}}
		}).(*sendQueue)
		p.queue.Store(q)
	}
	return q
}

// ready reports whether a batch can share a request. Else it was answered, or goes by itself.
func (p *pending) ready(b *batch) bool {
	sh := p.shard
	now := sh.env.Clock.Now()
	switch {
	case !sh.Node.Ready(sh.Slot): // since they joined, others were not answered
		away := sh.Node.Away(sh.Slot)
		p.answer(b, nil, fmt.Errorf("%w: %w", errBehind, away))
		p.endWaiting(away)
	case sh.left(), b.singles() && (sh.Known.Shut(now) || b.heldBack(now)):
		p.deny(b, now)
	case sh.Keyed && basis{shard: sh}.expired(), basis{shard: sh}.unfenced():
		go sh.sendSlowly(b, told{})
	default:
		return true
	}
	return false
}

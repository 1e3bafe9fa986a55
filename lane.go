package shardlimit

import (
	"context"
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// Errors that end an ask without its being sent: another shard may be asked for the same permits.
var (
	errTooLate = errors.New("the call timeout was over before its turn came")
	errBehind  = errors.New("the script call before it failed")
)

// errDissolved sends the callers of a batch to the next one. They never see it.
var errDissolved = errors.New("the batch was dissolved")

// maxFlights is how many script calls of a lane may be under way at once. A call carries a bounded
// number of participants: while more than that ask, one call a round trip would make a long queue.
const maxFlights = 4

// lane is this process' way to one shard of one limit. Asks that arrive while a script call is in
// flight wait and go together in the next one, so a shard has one call of this limiter under way,
// however many callers there are. Only a full batch does not wait for the call before it: then there
// are up to maxFlights. No lock is held while Redis is waited for.
type lane struct {
	// What a join writes, apart from what is only read.
	mu      sync.Mutex
	waiting atomic.Int64 // asks that wait or are in flight
	head    *batch       // departs next; nil if nobody waits
	tail    *batch       // takes newcomers: head, unless that is full
	flying  uint8        // who will look for the head: a bit for each flier
	_       [24]byte     // to the end of a cache line

	env *env
	way
	terms atomic.Pointer[terms]

	spare   atomic.Pointer[batch]              // to be used again
	air     [maxFlights]atomic.Pointer[flight] // each changed only by its flier
	flights uint64                             // calls so far; makes tickets unique

	known     knowledge
	shunUntil atomic.Int64          // see mustShun
	shunned   atomic.Pointer[error] // what was found; set before shunUntil
}

// terms is what the process proposes to the shard with every call.
type terms struct {
	epoch  int64
	most   int64 // that it can grant at once, as far as the layout says
	window time.Duration
	shards int64 // that the limit has

	proposal *script.Proposal // what it claims for a shard without state is subject to lane.deadline
}

// env is what the lanes of a process share.
type env struct {
	clock       *clock.Clock
	telemetry   *telemetry.Telemetry
	callTimeout time.Duration
	closed      *atomic.Bool // no calls are made any more
}

// way is where a lane leads.
type way struct {
	limit     owner
	metrics   *telemetry.Limiter
	node      *node.Node
	slot      int
	tag       string // of the shard's keys
	algorithm string
	ref       script.ShardRef
	bursty    bool // its algorithm has a burst
	paced     bool // its permits have turns: a leaky bucket
}

// owner is the limit that a lane is of. It is asked and told something with a script call, never with each call for permits.
type owner interface {
	// Refresh has the limit's record read again in good time.
	Refresh()
	// KnownFor is how long the limit is known to have existed.
	KnownFor() time.Duration
	// Confirmed is until when a layout of this epoch may be relied on, 0 if it may not.
	Confirmed(epoch, elapsed int64) (until int64)
	// Confirm makes sure that the layout of this process may be relied on, at most until ctx ends.
	Confirm(ctx context.Context) error
	// Heard compares what a shard said with what the process believed.
	Heard(l *lane, n news)
	// Elsewhere is what was free on the other shards of the limit, as last heard.
	Elsewhere(l *lane) int64
	// Returned tells that permits came back to a shard.
	Returned()
	// GiveBack returns permits that nobody uses, and tells how many could not be returned.
	GiveBack(parts []part) (lost int64)
	// Failed is the error of a call to the shard as callers see it.
	Failed(l *lane, err error) error
}

// news is what a shard said of itself in reply to a call that believed in an epoch.
type news struct {
	operation       telemetry.Operation
	status          script.Status
	believed, epoch int64
}

func newLane(e *env, w way, t *terms) *lane {
	l := &lane{env: e, way: w}
	l.terms.Store(t)
	return l
}

// room is what the shard holds at the most when nothing is in use: its share, or the part of the burst that goes with it.
func (l *lane) room(r *script.PeekReply) int64 {
	t := l.terms.Load()
	if !l.bursty || r.Target == 0 || t == nil {
		return min(r.Share, r.Target)
	}
	burst := t.most
	if r.Share < r.Target {
		return int64(float64(burst) * float64(r.Share) / float64(r.Target))
	}
	return burst
}

// join puts the ask on the batch that departs next, and keeps the lane's lock:
// the caller is to be among the sleepers before the batch can depart.
func (l *lane) join(a *ask) {
	l.mu.Lock()
	l.waiting.Add(1)
	if l.tail == nil || !l.tail.take(a) {
		l.append(a)
	}
	if l.flying == 0 {
		l.flying = 1
		go l.fly(0)
	}
}

// append puts the ask on a new batch. If that makes one wait that is full, another flier takes it,
// unless there are enough. l.mu is held.
func (l *lane) append(a *ask) {
	b := newBatch(l)
	if l.tail == nil {
		l.head = b
	} else {
		l.tail.next = b
		if more := bits.TrailingZeros8(^l.flying); more < maxFlights {
			l.flying |= 1 << more
			go l.fly(more)
		}
	}
	l.tail = b
	b.take(a)
}

// quit is for an ask whose caller leaves before the batch has landed. l.mu is held.
func (l *lane) quit(a *ask) {
	a.batch.leave(a)
	if !a.batch.sent {
		l.waiting.Add(-1)
	}
}

// depart takes the batch whose turn it is. If nobody waits, or those who do are few and another flier
// will look for them, this one ends: depart returns nil. A batch that some call has waited for so long
// that the answer could come after its timeout is dissolved: its callers find another.
func (l *lane) depart(flier int) *batch {
	for {
		l.mu.Lock()
		b := l.head
		if others := l.flying &^ (1 << flier); b == nil || b == l.tail && others != 0 {
			l.flying = others
			l.mu.Unlock()
			return nil
		}
		l.head, b.next = b.next, nil
		if l.head == nil {
			l.tail = nil
		}
		if b.calls() == 0 {
			l.mu.Unlock()
			continue
		}
		l.flights++
		b.sent, b.number = true, l.flights
		l.mu.Unlock()
		if l.env.clock.Now()-b.oldest <= l.env.boarding() {
			return b
		}
		l.land(b, nil, errDissolved)
	}
}

// fly sends batches until nobody waits.
func (l *lane) fly(flier int) {
	for b := l.depart(flier); b != nil; b = l.depart(flier) {
		if now := l.env.clock.Now(); b.singles() && (l.known.shut(now) || b.heldBack(now)) {
			l.deny(b, now)
			continue
		}
		f := l.air[flier].Load()
		if f == nil {
			f = newFlight(l, flier)
			l.air[flier].Store(f)
		}
		if !f.run(b) {
			return // given up: another goroutine flies now
		}
		// Those who have just been answered are about to come back. Let them, so
		// that the next batch carries all of them and not every other one.
		runtime.Gosched()
	}
}

// deny answers a batch that boarded while the call before it was under way, which has
// found that nothing is free for a while, or not for those on board: to ask again would be in vain.
func (l *lane) deny(b *batch, now int64) {
	b.now, b.retry = now, unknownRetry // from what is known of all shards
	l.land(b, make([]int64, len(b.classes)), nil)
}

// land wakes everybody on board. asks are those granted of each of its groups, or err tells
// why there are none.
func (l *lane) land(b *batch, asks []int64, err error) {
	l.mu.Lock()
	lost := int64(0)
	if b.err = err; err == nil {
		lost = b.grant(asks)
	}
	l.waiting.Add(-b.calls())
	landed, watchers := b.landed, b.watchers
	b.over.Store(true) // from here on somebody else may have the batch, but for its crowd
	l.mu.Unlock()
	if lost > 0 {
		go l.giveBack(b) // ends soon: see owner.GiveBack
	}
	switch {
	case watchers == 1:
		landed <- struct{}{}
	case watchers > 1:
		close(landed)
	}
	b.crowd.Broadcast()
}

// giveBack returns what a batch was granted for callers who had left before the reply came. Nobody
// uses it, and it would be missing for a whole window. What cannot be returned counts as lost.
func (l *lane) giveBack(b *batch) {
	if lost := l.limit.GiveBack(b.unclaimed()); lost > 0 {
		l.env.telemetry.Lost(l.metrics, lost)
	}
}

// abandon ends the calls that are under way without waiting for their replies.
func (l *lane) abandon() {
	for i := range l.air {
		if f := l.air[i].Load(); f != nil {
			f.ring()
		}
	}
}

// turnAway ends the asks that wait behind a call that failed. They were not sent.
func (l *lane) turnAway(cause error) {
	l.mu.Lock()
	b := l.head
	l.head, l.tail = nil, nil
	l.mu.Unlock()
	for err := (&notSentError{cause: errBehind, reason: cause}); b != nil; {
		next := b.next
		l.land(b, nil, err)
		b = next
	}
}

// remembers reports whether this process saw the shard's state so lately that it
// cannot have expired since: what has an entry in its log lives a window longer.
func (l *lane) remembers(now int64) bool {
	used := l.known.usedAt.Load()
	return used != 0 && time.Duration(now-used) < l.terms.Load().window
}

// fail is the error of a call to the shard as callers see it.
func (l *lane) fail(err error) error { return l.limit.Failed(l, err) }

// most is how many permits the shard can grant at once, as far as the layout says.
func (l *lane) most() int64 { return l.terms.Load().most }

// shut reports whether the shard is known to have nothing to give.
func (l *lane) shut(now int64) bool { return l.known.shut(now) }

// free is what was free after the last reply; heard is false if there was none.
func (l *lane) free() (n int64, heard bool) { return l.known.free.Load(), l.known.heard.Load() }

// freeAt is when a permit comes back, if none was free after the last reply.
func (l *lane) freeAt() int64 { return l.known.freeAt.Load() }

// resetAt is when the shard is unused again.
func (l *lane) resetAt() int64 { return l.known.resetAt.Load() }

// answered reports whether a reply came at that time or later.
func (l *lane) answered(since int64) bool { return l.known.answered.Load() >= since }

// expected is how many permits the shard has, as far as this process knows.
func (l *lane) expected(now int64) int64 {
	free, heard := l.free()
	if !heard || now >= l.resetAt() {
		return l.most()
	}
	return free
}

// left is how many permits the shard would have left to give, as last heard and if all who wait for
// an answer are granted one. If it was not heard from it has its share.
func (l *lane) left() int64 {
	free, heard := l.free()
	if !heard {
		free = l.most()
	}
	return free - l.waiting.Load()
}

// forget forgets what was heard of the shard before now.
func (l *lane) forget(now int64) { l.known.forget(now) }

// follows has the lane take over, from another one to the same shard on a node that has moved, when the
// shard was used last: if it comes without its data, that is a loss of memory.
func (l *lane) follows(old *lane) { l.known.usedAt.Store(old.known.usedAt.Load()) }

// notSentError is an ask that surely was not executed.
type notSentError struct{ cause, reason error }

func (e *notSentError) Error() string   { return e.cause.Error() + ": " + e.reason.Error() }
func (e *notSentError) Unwrap() []error { return []error{e.cause, e.reason} }

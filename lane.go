package shardlimit

import (
	"context"
	"errors"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
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

	core      *core
	slot      int
	node      *node.Node
	algorithm string
	bursty    bool // its algorithm has a burst
	paced     bool // its permits have turns: LeakyBucket
	tag       string
	ref       script.ShardRef
	terms     atomic.Pointer[terms]

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

// noTerms are those of a shard that this process has no layout for: they find what is there and create nothing.
func noTerms(algorithm string) *terms {
	a, _ := algorithmNamed(algorithm)
	p, _ := script.Terms{Algorithm: a.inScripts()}.Proposal() // of epoch 0, which is always valid
	return &terms{shards: 1, proposal: p}
}

func newLane(c *core, n *node.Node, s shard.Shard, t *terms) *lane {
	tag := shard.Tag(s.Slot)
	l := &lane{core: c, slot: s.Slot, node: n, algorithm: s.Algorithm, tag: tag}
	l.terms.Store(t)
	if a, err := algorithmNamed(s.Algorithm); err == nil { // else no call gets as far as to need the keys
		l.ref, l.bursty, l.paced = a.inScripts().Keys(c.client.cfg.KeyPrefix, tag, c.id), a.bursty(), a == LeakyBucket
	}
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
		if l.core.client.now()-b.oldest <= boarding(l.core.client) {
			return b
		}
		l.land(b, nil, errDissolved)
	}
}

// fly sends batches until nobody waits.
func (l *lane) fly(flier int) {
	for b := l.depart(flier); b != nil; b = l.depart(flier) {
		if now := l.core.client.now(); b.singles() && (l.known.shut(now) || b.heldBack(now)) {
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

// elsewhere is what was free on the other shards of the limit, as last heard.
func (l *lane) elsewhere() int64 {
	t := l.core.table.Load()
	if t == nil || !t.split {
		return 0
	}
	n := int64(0)
	for _, other := range t.lanes {
		if other != l {
			n += other.known.free.Load()
		}
	}
	return n
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
		go l.giveBack(b) // ends soon: see core.giveBack
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
	d := b.unclaimed()
	if lost := l.core.giveBack(d); lost > 0 {
		l.core.client.tel.Lost(l.core.metrics, lost)
	}
	l.core.accounts.wake() // somebody may have been refused meanwhile
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

// mustShun reports whether calls that end so would end so again: other data under the
// shard's keys, or a user who may not run what a script calls.
func mustShun(err error) bool {
	text, _ := script.Said(err)
	return errors.Is(err, script.ErrForeignState) || strings.HasPrefix(text, "ACL failure in script") ||
		strings.HasPrefix(text, "The user executing the script") || strings.HasPrefix(text, "NOPERM")
}

// shun keeps calls away for a while from keys that hold somebody else's data.
func (l *lane) shun(found error) {
	l.shunned.Store(&found)
	l.shunUntil.Store(l.core.client.now() + int64(time.Second))
}

// endpoint is the connected endpoint of the shard. Where ctx has ended there is none: what
// is not sent any more must not count as a timeout of the node.
func (l *lane) endpoint(ctx context.Context) (*node.Endpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.node.Endpoint(ctx, l.slot)
}

// ready reports whether the node is believed to answer. If its breaker's pause
// is over, a probe that spends nothing is sent in the background.
func (l *lane) ready(now int64) bool {
	if l.node.Ready(l.slot) {
		return now >= l.shunUntil.Load()
	}
	if e := l.node.Known(l.slot); e == nil {
		l.node.Redial(now)
	} else if e.Breaker.ClaimProbe(now) {
		go l.probe(e)
	}
	return false
}

func (l *lane) probe(e *node.Endpoint) {
	ctx, cancel := context.WithTimeout(context.Background(), l.core.client.cfg.CallTimeout)
	defer cancel()
	_, err := e.Scripts.Peek(ctx, l.ref)
	l.report(e, err)
}

// report tells the breaker how a call ended. A call that was not sent in its time tells nothing.
func (l *lane) report(e *node.Endpoint, err error) { l.node.Report(e, err) }

// reportSince is report for a call that its caller may have ended, or that had only what was left of a call timeout. That there was no answer
// tells something of the node only if the call had half of the timeout, which is what a call has at least that nobody hurries.
func (l *lane) reportSince(e *node.Endpoint, sent int64, err error) {
	hurried := time.Duration(l.core.client.now()-sent) < l.core.client.cfg.CallTimeout/2
	if hurried && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		return
	}
	l.report(e, err)
}

func (l *lane) fail(err error) *ShardError {
	return &ShardError{Limiter: l.core.name, Shard: l.tag, Node: l.node.Name, Err: err}
}

// notSentError is an ask that surely was not executed.
type notSentError struct{ cause, reason error }

func (e *notSentError) Error() string   { return e.cause.Error() + ": " + e.reason.Error() }
func (e *notSentError) Unwrap() []error { return []error{e.cause, e.reason} }

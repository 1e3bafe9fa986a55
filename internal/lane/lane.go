// Package lane is one process' way to one shard: how calls that meet share a script call, what the
// process remembers of the shard, and how each of its participants stands there. Every call to a
// shard goes through it, see call.go.
package lane

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
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

// Lane is this process' way to one shard of one limit. Asks that arrive while a script call with
// asks for the shard is in flight wait and go together in the next one, however many callers there
// are. A lane with asks that wait stands in the outbox of its node, whose flights carry those of
// many shards. No lock is held while Redis is waited for.
type Lane struct {
	// What a join writes, apart from what is only read.
	mu      sync.Mutex
	Waiting atomic.Int64 // asks that wait or are in flight
	head    *batch       // departs next; nil if nobody waits
	tail    *batch       // takes newcomers: head, unless that is full
	away    int32        // batches that have departed and not landed
	boxed   bool         // in the outbox
	_       [20]byte     // to the end of a cache line

	env *Env
	*Way
	Limit Limit
	Node  *node.Node
	Ref   script.ShardRef
	Nonce uint64                 // tells its tickets from those of every other lane, of any process
	Terms *atomic.Pointer[Terms] // those of one shard have them together, if its node has moved
	own   atomic.Pointer[Terms]
	Gone  atomic.Bool // the process uses it no more; calls under way may go on
	// Others are the lanes to the shards of the limit, this one among them; nil: there is no other.
	Others atomic.Pointer[[]*Lane]
	Rare   atomic.Bool // the last take found its state other than proposed
	// it was other only in that participants contend
	contended atomic.Bool
	box       atomic.Pointer[outbox]

	departed uint64 // batches so far; makes tickets unique
	Known    Knowledge
}

// Terms is what the process proposes to the shard with every call.
type Terms struct {
	Epoch  int64
	Most   int64 // permits that it can grant at once, as far as the layout says
	Window time.Duration
	Shards int64 // that the limit has
	Split  bool  // over several nodes
	Fence  Fence // tells whether the shard may be asked; nil: it always may

	Proposal *script.Proposal // what it claims for a shard without state is subject to Lane.deadline
}

// Fence tells which nodes are in, and for how long that may be relied on.
type Fence interface {
	// Until is until when, as time elapsed; 0: it may not.
	Until(elapsed clock.Elapsed) clock.Elapsed
	// Bars reports whether a shard that is of a life of a node must not be asked.
	Bars(node, life string) bool
	// ConfirmSince has it confirmed, at most until ctx ends, by a read that began at that time
	// elapsed or later.
	ConfirmSince(ctx context.Context, since clock.Elapsed) error
}

// Env is what the lanes of a process share.
type Env struct {
	Clock       *clock.Clock
	Telemetry   *telemetry.Telemetry
	CallTimeout time.Duration
	Closed      *atomic.Bool // no calls are made any more

	batches sync.Pool // to be used again
	flights sync.Pool // likewise
	air     air
	shed    atomic.Int64 // when a call was shed last
	parked  parking
}

// Way is where a lane leads. Those to the keys of a family that lie at one place have it together.
type Way struct {
	Metrics   *telemetry.Limiter
	Slot      int
	Home      string // the node, as the layout calls it
	Algorithm string
	Life      string       // the life of the node that it is of; "": it may always be asked
	Space     script.Space // of the shard's keys
	Bursty    bool         // its algorithm has a burst
	Paced     bool         // its permits have turns: a leaky bucket
	Keyed     bool         // it is of a key of a family: shared by nobody, and nobody tells the shard that it left
}

// Limit is the limit that a lane is of. It is asked and told something with a script call, never
// with each call for permits.
type Limit interface {
	// Belief is what the process relies on that works with the layout of this epoch. It is read
	// again in good time.
	Belief(epoch int64, elapsed clock.Elapsed) Belief
	// Confirm makes sure that the layout of this process may be relied on, at most until ctx ends,
	// since a read that began at that time elapsed or later.
	Confirm(ctx context.Context, since clock.Elapsed) error
	// Learned takes in what a call to a shard has told.
	Learned(l *Lane, n News)
}

// Belief is what a process relies on for a call to a shard.
type Belief struct {
	Until   clock.Elapsed // that it may rely on the layout; 0: it may not
	Known   time.Duration // how long the limit is known to have existed
	Expired bool          // the layout was confirmed, and that was too long ago
}

// News is what a call told: of the shard, if the call believed in another epoch or there was a
// loss; or one of the other two.
type News struct {
	Operation       telemetry.Operation
	Status          script.Status
	Believed, Epoch int64
	Unclaimed       []Part // granted for callers who had left: to be given back
	HasRoom         bool   // where a participant believed that there was no room for it
}

// Lead makes a zero lane the one of a limit, of that name in Redis, to its shard at a node.
func (l *Lane) Lead(e *Env, w *Way, of Limit, ref script.ShardRef, n *node.Node, t *Terms) *Lane {
	l.env, l.Way, l.Limit, l.Node, l.Ref, l.Nonce = e, w, of, n, ref, chance.Uint64()
	l.Terms = &l.own
	l.Terms.Store(t)
	return l
}

// Tag is the hash tag of the shard's keys.
func (w *Way) Tag() string { return shard.Tag(w.Slot) }

// Room is what the shard holds at the most when nothing is in use: its share, or the part of the
// burst that goes with it.
func (l *Lane) Room(r *script.PeekReply) int64 {
	t := l.Terms.Load()
	if !l.Bursty || r.Target == 0 || t == nil {
		return min(r.Share, r.Target)
	}
	burst := t.Most
	if r.Share < r.Target {
		return int64(float64(burst) * float64(r.Share) / float64(r.Target))
	}
	return burst
}

// join puts the ask on the batch that departs next, and keeps the lane's lock: the caller is to be
// among the sleepers before the batch can depart. It reports false, and does not keep the lock, if
// what waits already for the lane's node is more than can be sent in time.
func (l *Lane) join(a *Ask) bool {
	l.mu.Lock()
	if l.tail == nil || !l.tail.take(a) {
		now := l.env.Clock.Now()
		if o := l.outbox(); l.head != nil && l.env.overdue(l.head.opened, now) || o.overdue(now) {
			l.mu.Unlock()
			o.sheds(now)
			return false
		}
		b := newBatch(l)
		b.opened = now
		if l.tail == nil {
			l.head = b
		} else {
			l.tail.next = b
		}
		l.tail = b
		b.take(a)
	}
	l.Waiting.Add(1)
	if !l.boxed && l.away == 0 {
		l.boxed = true
		l.outbox().add(l, l.head.opened)
	}
	return true
}

// quit is for an ask whose caller leaves before the batch has landed. l.mu is held.
func (l *Lane) quit(a *Ask) {
	a.batch.leave(a)
	if !a.batch.sent {
		l.Waiting.Add(-1)
	}
}

// depart takes the batch that goes next; nil if nobody waits. A batch that stood in line until it
// would be in a hurry, or that some call has waited for so long that the answer could come after
// its timeout, is dissolved: its callers find another, if there is time.
func (l *Lane) depart() *batch {
	for {
		l.mu.Lock()
		l.boxed = false
		b := l.head
		if b == nil {
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
		l.departed++
		l.away++
		b.sent, b.number = true, l.departed
		l.mu.Unlock()
		now, e := l.env.Clock.Now(), l.env
		if !e.Hurried(e.CallTimeout-time.Duration(now-b.opened)) && now-b.oldest <= e.Boarding() {
			return b
		}
		l.land(b, nil, errDissolved)
	}
}

// deny answers a batch that boarded while the call before it was under way, which has
// found that nothing is free for a while, or not for those on board: to ask again would be in vain.
func (l *Lane) deny(b *batch, now int64) {
	b.now, b.retry, b.rest = now, UnknownRetry, l.elsewhere(now) // from what is known of all shards
	l.land(b, make([]int64, len(b.classes)), nil)
}

// land wakes everybody on board. asks are those granted of each of its groups, or err tells
// why there are none. A lane where others wait by then goes into the outbox.
func (l *Lane) land(b *batch, asks []int64, err error) {
	l.mu.Lock()
	lost := int64(0)
	if b.err = err; err == nil {
		lost = b.grant(asks)
	}
	l.Waiting.Add(-b.calls())
	landed, watchers := b.landed, b.watchers
	again, opened := false, int64(0)
	if b.sent {
		l.away--
		if again = l.head != nil && l.away == 0 && !l.boxed; again {
			l.boxed, opened = true, l.head.opened
		}
	}
	b.over.Store(true) // from here on somebody else may have the batch, but for its crowd
	l.mu.Unlock()
	if again {
		l.outbox().add(l, opened)
	}
	if lost > 0 {
		// Nobody uses it, and it would be missing for a whole window. This ends soon.
		go l.Limit.Learned(l, News{Unclaimed: b.unclaimed()})
	}
	switch {
	case watchers == 1:
		landed <- struct{}{}
	case watchers > 1:
		close(landed)
	}
	b.crowd.Broadcast()
}

// endWaiting ends the asks that wait behind a call that failed. They were not sent.
func (l *Lane) endWaiting(cause error) {
	l.mu.Lock()
	b := l.head
	l.head, l.tail = nil, nil
	l.mu.Unlock()
	for b != nil {
		next, err := b.next, &notSentError{cause: errBehind, reason: cause}
		l.land(b, nil, err)
		b = next
	}
}

// hasOthers reports whether the limit has shards on other servers, that can answer where this one
// does not.
func (l *Lane) hasOthers() bool {
	t := l.Terms.Load()
	return t.Split || t.Shards > 1 && l.Node.Spread()
}

// Most is how many permits the shard can grant at once, as far as the layout says.
func (l *Lane) Most() int64 { return l.Terms.Load().Most }

// Expected is how many permits the shard has, as far as this process knows.
func (l *Lane) Expected(now int64) int64 {
	free, heard := l.Known.Free()
	if !heard || now >= l.Known.ResetAt.Load() {
		return l.Most()
	}
	return free
}

// Present is Expected, but nothing while the node is away.
func (l *Lane) Present(now int64) int64 {
	if !l.Node.Ready(l.Slot) {
		return 0
	}
	return l.Expected(now)
}

// elsewhere is what is free now on the other shards of the limit, as far as this process knows.
func (l *Lane) elsewhere(now int64) (n int64) {
	all := l.Others.Load()
	if all == nil {
		return 0
	}
	for _, o := range *all {
		if o != l {
			n += o.Present(now)
		}
	}
	return n
}

// Left is how many permits the shard would have left to give, as last heard and if all who wait for
// an answer are granted one. If it was not heard from it has its share.
func (l *Lane) Left() int64 {
	free, heard := l.Known.Free()
	if !heard {
		free = l.Most()
	}
	return free - l.Waiting.Load()
}

// Follows has the lane take over, from another one to the same shard, when that was used last: if
// it has no data, that is a loss of memory. The other one's node turned out to be called otherwise;
// calls that are under way on it get the terms of this one.
func (l *Lane) Follows(old *Lane) {
	l.Known.usedAt.Store(old.Known.usedAt.Load())
	l.Terms = old.Terms
}

// notSentError is an ask that surely was not executed.
type notSentError struct{ cause, reason error }

func (e *notSentError) Error() string   { return e.cause.Error() + ": " + e.reason.Error() }
func (e *notSentError) Unwrap() []error { return []error{e.cause, e.reason} }

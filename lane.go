package shardlimit

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Errors that end an ask without its being sent: another shard may be asked for the same permits.
var (
	errTooLate = errors.New("the call timeout was over before its turn came")
	errBehind  = errors.New("the script call before it failed")
)

// lane is this process' way to one shard of one limit. Asks that arrive while a
// script call is in flight wait and go together in the next one, so a shard has
// at most one call of this limiter under way, however many callers there are.
// No lock is held while Redis is waited for.
type lane struct {
	core      *core
	slot      int
	node      *node
	algorithm string
	tag       string
	ref       script.ShardRef
	terms     atomic.Pointer[terms]

	waiting atomic.Int64 // asks that wait or are in flight

	mu      sync.Mutex
	pending []*ask
	flying  bool

	flight atomic.Pointer[flight] // changed only by the goroutine that flies

	// Only the goroutine that flies touches these.
	spare   []*ask // backing of the next pending
	flights uint64 // calls so far; makes tickets unique

	known     knowledge
	shunUntil atomic.Int64          // after foreign state was found under its keys
	shunned   atomic.Pointer[error] // what was found; set before shunUntil
}

// terms is what the process proposes to the shard with every call.
type terms struct {
	epoch  int64
	share  int64 // the target
	window time.Duration
	split  bool             // the limit has other shards
	full   *script.Proposal // for a layout that was confirmed lately
	looked *script.Proposal // otherwise: claims nothing for a shard that has no state
}

func newLane(c *core, n *node, s shard.Shard) *lane {
	tag := shard.Tag(s.Slot)
	l := &lane{core: c, slot: s.Slot, node: n, algorithm: s.Algorithm, tag: tag}
	l.ref = script.ShardKeys(c.client.cfg.KeyPrefix, tag, c.id)
	return l
}

// ask asks the shard for n permits and waits for the answer, at most until ctx
// ends or the call that began at since has used up the call timeout. An error
// for which script.NotExecuted is false leaves open whether permits were spent.
func (l *lane) ask(ctx context.Context, n int64, upTo bool, since int64) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	budget := l.core.client.cfg.CallTimeout
	if age := time.Duration(l.core.client.now() - since); age > budget/2 {
		if age >= budget {
			return answer{}, errTooLate
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, budget-age, errTooLate)
		defer cancel()
	}
	var span trace.SpanContext
	if l.core.client.tel.tracing {
		span = trace.SpanContextFromContext(ctx)
	}
	a := newAsk(n, upTo, since, span)
	l.submit(a)
	if done := ctx.Done(); done == nil {
		<-a.done
	} else {
		select {
		case <-a.done:
		case <-done:
			if a.leave() {
				return answer{}, context.Cause(ctx)
			}
			<-a.done
		}
	}
	ans, err := a.answer, a.err
	a.recycle()
	return ans, err
}

func (l *lane) submit(a *ask) {
	l.waiting.Add(1)
	l.mu.Lock()
	l.pending = append(l.pending, a)
	start := !l.flying
	l.flying = true
	l.mu.Unlock()
	if start {
		go l.fly()
	}
}

// fly sends batches until nobody waits.
func (l *lane) fly() {
	for {
		l.mu.Lock()
		batch := l.pending
		if len(batch) == 0 {
			l.flying = false
			l.mu.Unlock()
			return
		}
		l.pending, l.spare = l.spare[:0], nil
		l.mu.Unlock()

		f := l.flight.Load()
		if f == nil {
			f = newFlight(l)
			l.flight.Store(f)
		}
		l.flights++
		if !f.run(l.flights, batch) {
			l.flight.Store(nil)
		}
		clear(batch)
		l.spare = batch
	}
}

// abandon ends the call that is under way without waiting for its reply.
func (l *lane) abandon() {
	if f := l.flight.Load(); f != nil {
		f.ring()
	}
}

// requeue puts asks that did not fit into a call back to the front.
func (l *lane) requeue(rest []*ask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(append(make([]*ask, 0, len(rest)+len(l.pending)), rest...), l.pending...)
}

// turnAway ends the asks that wait behind a call that failed. They were not sent.
func (l *lane) turnAway(cause error) {
	l.mu.Lock()
	waiting := l.pending
	l.pending = nil
	l.mu.Unlock()
	err := &notSentError{cause: errBehind, reason: cause}
	for _, a := range waiting {
		l.settle(a, answer{}, err)
	}
}

func (l *lane) settle(a *ask, ans answer, err error) {
	l.waiting.Add(-1)
	granted := ans.granted
	if !a.settle(ans, err) && granted > 0 {
		l.core.client.tel.lost(l.core, granted)
	}
}

// proposal is what to propose now: the full share only if the layout was
// confirmed by its record lately, because a shard without state takes our word.
func (l *lane) proposal(t *terms) *script.Proposal {
	if l.core.confirmed() {
		return t.full
	}
	return t.looked
}

// remembers reports whether this process saw the shard's state so lately that it
// cannot have expired since: what has an entry in its log lives a window longer.
func (l *lane) remembers(now int64) bool {
	used := l.known.usedAt.Load()
	return used != 0 && time.Duration(now-used) < l.terms.Load().window
}

// shun keeps calls away for a while from keys that hold somebody else's data.
func (l *lane) shun(found error) {
	l.shunned.Store(&found)
	l.shunUntil.Store(l.core.client.now() + int64(time.Second))
}

// endpoint is the connected endpoint of the shard.
func (l *lane) endpoint(ctx context.Context) (*endpoint, error) {
	return l.node.endpoint(ctx, l.slot)
}

// ready reports whether the node is believed to answer. If its breaker's pause
// is over, a probe that spends nothing is sent in the background.
func (l *lane) ready(now int64) bool {
	if l.node.ready(l.slot) {
		return now >= l.shunUntil.Load()
	}
	if e := l.node.known(l.slot); e == nil {
		l.node.redial(now)
	} else if e.breaker.claimProbe(now) {
		go l.probe(e)
	}
	return false
}

func (l *lane) probe(e *endpoint) {
	ctx, cancel := context.WithTimeout(context.Background(), l.core.client.cfg.CallTimeout)
	defer cancel()
	_, err := e.scripts.Peek(ctx, l.ref)
	l.report(e, err)
}

// report tells the breaker how a call ended.
func (l *lane) report(e *endpoint, err error) {
	b := &e.breaker
	switch {
	case err == nil || isAnswer(err):
		if b.succeeded() {
			l.node.log(l.node.name, "node answers again", nil)
		}
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		if b.timedOut(l.core.client.now()) {
			l.node.log(l.node.name, "node does not answer in time", err)
		}
	default:
		if b.broke(l.core.client.now()) {
			l.node.log(l.node.name, "node is away", err)
		}
	}
}

// isAnswer reports whether the error is what a server in good health says.
func isAnswer(err error) bool {
	if errors.Is(err, script.ErrForeignState) {
		return true
	}
	r, ok := rueidis.IsRedisErr(err)
	if !ok || r.IsLoading() || r.IsClusterDown() || r.IsTryAgain() {
		return false
	}
	if _, moved := r.IsMoved(); moved {
		return false
	}
	for _, unfit := range []string{"READONLY", "MASTERDOWN", "BUSY", "NOREPLICAS", "OOM", "MISCONF"} {
		if strings.HasPrefix(r.Error(), unfit) {
			return false
		}
	}
	return true
}

func (l *lane) fail(err error) *ShardError {
	return &ShardError{Limiter: l.core.name, Shard: l.tag, Node: l.node.name, Err: err}
}

// notSentError is an ask that surely was not executed.
type notSentError struct{ cause, reason error }

func (e *notSentError) Error() string   { return e.cause.Error() + ": " + e.reason.Error() }
func (e *notSentError) Unwrap() []error { return []error{e.cause, e.reason} }

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// KeyAsk is an ask that is a section of a request by itself: it needs no Shard for the key, and no
// batch. Most calls for a million keys are such asks.
type KeyAsk struct {
	account *Account // whose Shard stands for all keys at the place
	ref     script.ShardRef
	n       int64
	since   int64 // when it began, on the process' clock
	link    *trace.Link
	state   atomic.Int32  // asks, answered or left
	gone    func(Part)    // called if its caller has left
	over    chan struct{} // tells its caller that it is answered
	kept    bool          // it is not used again: a late reply may be told to it
	err     error
	Answer
	Known Knowledge // what the reply told of the shard
}

// The states of a KeyAsk.
const (
	asks     = iota // its caller waits for the answer
	answered        // the answer is there
	left            // its caller does not wait any more
)

// ErrNotPlain ends a KeyAsk whose call goes on with a Shard: the key's state is rare, or the layout
// has to be confirmed first.
var ErrNotPlain = errors.New("the key is not asked for alone")

// AsksKeys reports whether AskKey may be used: the node is so near that there is time for another
// ask after ErrNotPlain.
func (acc *Account) AsksKeys() bool { return acc.Shard.sendQueue().near(8) }

// Crowded reports whether a call would be shed.
func (acc *Account) Crowded(now int64) bool { return acc.Shard.sendQueue().overdue(now) }

// Shed notes that a call is shed.
func (acc *Account) Shed(now int64) {
	q := acc.Shard.sendQueue()
	q.over.sheds(now, int64(q.env.CallTimeout))
}

// AskKey asks for n permits or none of a key that lies where the account's shard does. It waits for
// the answer or until ctx ends. A caller that was not answered must call Leave. Once it was
// answered it must call Free.
func (acc *Account) AskKey(ctx context.Context, ref script.ShardRef, n, now int64) (a *KeyAsk, answered bool) {
	sh := acc.Shard
	a, used := sh.env.keyAsks.Get().(*KeyAsk)
	if !used {
		a = &KeyAsk{over: make(chan struct{}, 1)}
	}
	a.account, a.ref, a.n, a.since = acc, ref, n, now
	if sh.env.Telemetry.Tracing {
		a.link = telemetry.LinkTo(ctx)
	}
	sh.sendQueue().add(waiting{shard: sh, key: a, since: now})
	select {
	case <-a.over:
		return a, true
	case <-ctx.Done():
		return a, false
	}
}

// Leave has the caller not wait for the answer: gone is called in its stead, with what is granted.
// It is false if the answer is there.
func (a *KeyAsk) Leave(gone func(granted Part)) bool {
	a.gone = gone
	if a.state.CompareAndSwap(asks, left) {
		return true
	}
	<-a.over
	return false
}

// Err returns why there is no answer. After ErrNotPlain, nothing was granted.
func (a *KeyAsk) Err() error { return a.err }

// Free has the ask used again.
func (a *KeyAsk) Free() {
	if a.kept {
		return
	}
	e := a.shard().env
	*a = KeyAsk{over: a.over}
	e.keyAsks.Put(a)
}

func (a *KeyAsk) shard() *Shard { return a.account.Shard }

func (a *KeyAsk) end(err error) {
	if a.err = err; a.state.CompareAndSwap(asks, answered) {
		a.over <- struct{}{}
	} else {
		a.gone(Part{Account: a.account, At: a.At, N: a.Granted})
	}
}

// ready reports whether the ask can be a section of a request; else it was ended. sure is a shard
// whose layout and fence were just found to be confirmed.
func (a *KeyAsk) ready(now int64, sure *Shard) bool {
	sh := a.shard()
	switch {
	case a.state.Load() == left:
		a.end(ErrNotPlain) // nobody hears it
	case sh.sendQueue().tooOld(now - a.since):
		a.end(ErrOverloaded)
	case !sh.Node.Ready(sh.Slot): // since it began to wait, others were not answered
		a.end(fmt.Errorf("%w: %w", errBehind, sh.Node.Away(sh.Slot)))
	case sh != sure && (basis{shard: sh}.expired() || basis{shard: sh}.unfenced()):
		a.end(ErrNotPlain)
	default:
		return true
	}
	return false
}

// learn takes in the reply to a call that was sent and answered at these times.
func (a *KeyAsk) learn(c *call, received int64, s *section) {
	a.Known.learn(c.Sent, received, c.Began, s.terms, &s.Reply)
	a.Known.Rare.Store(s.take.Rare)
	if s.Reply.Status != script.Fresh || s.Reply.Epoch != s.terms.Epoch {
		c.tell(s.terms, s.Reply.Status, s.Reply.Epoch)
	}
}

// deliver answers the ask. A refusal counts only if its sole reason is that too much is in use.
func (a *KeyAsk) deliver(s *section, received int64) {
	r := &s.Reply
	a.Answer = Answer{Granted: r.Granted, At: r.At, Ticket: chance.Uint64() >> 1, Now: received, Rest: r.Free,
		Retry: r.Retry}
	plain := r.Granted == a.n || r.Status == script.OK && r.Epoch == s.terms.Epoch && !s.take.Rare && r.Retry > 0 &&
		a.Known.Why() == telemetry.Full
	if !plain {
		a.end(ErrNotPlain)
		return
	}
	a.end(nil)
}

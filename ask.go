package shardlimit

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// ask is what one call wants from one shard. The lane combines the asks that
// are waiting into one script call.
type ask struct {
	n     int64
	upTo  bool              // take what there is, up to n; else all or nothing
	since int64             // when the call began, on the client's clock
	span  trace.SpanContext // the caller's, if it is traced

	state  atomic.Uint32 // askWaiting, askAnswered or askLeft
	done   chan struct{} // one value when answered
	answer answer
	err    error
}

// answer is what the shard said to one ask.
type answer struct {
	granted int64
	at      int64         // shard time of the grant, microseconds
	ticket  uint64        // tells this grant from every other one of the lane
	now     int64         // when the reply came, on the client's clock
	retry   time.Duration // refused: until it could be granted; unknownRetry if not told
}

const unknownRetry = time.Duration(-1)

const (
	askWaiting uint32 = iota
	askAnswered
	askLeft // the caller has gone; the lane recycles the ask
)

var asks = sync.Pool{New: func() any { return &ask{done: make(chan struct{}, 1)} }}

func newAsk(n int64, upTo bool, since int64, span trace.SpanContext) *ask {
	a := asks.Get().(*ask)
	a.n, a.upTo, a.since, a.span = n, upTo, since, span
	a.answer, a.err = answer{}, nil
	a.state.Store(askWaiting)
	return a
}

func (a *ask) recycle() {
	a.span = trace.SpanContext{}
	asks.Put(a)
}

// settle hands the answer to the caller. If the caller has gone it returns
// false and recycles the ask. Either way the ask is no longer the lane's.
func (a *ask) settle(ans answer, err error) bool {
	a.answer, a.err = ans, err
	if a.state.CompareAndSwap(askWaiting, askAnswered) {
		a.done <- struct{}{}
		return true
	}
	a.recycle()
	return false
}

// leave gives the ask up and reports false if it has been answered already.
func (a *ask) leave() bool { return a.state.CompareAndSwap(askWaiting, askLeft) }

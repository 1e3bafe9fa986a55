package shardlimit

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// ask is what one call wants from one shard, and what it gets. It lives on the
// caller's stack: a batch knows how many asks it carries, not which. The callers
// who sleep are many, and what lies on their stacks has left the caches when they
// wake: so the functions on the way to where they sleep pass a pointer to this
// from one to the other, and keep little else.
type ask struct {
	seat  *seat // whom it is for
	n     int64
	since int64 // when the call began, on the client's clock
	upTo  bool  // take what there is, up to n; else all or nothing

	// Its place, set by join:
	class  int32 // of the batch's classes
	batch  *batch
	place  int64  // how many of the class came before
	serial uint64 // no other ask of the batch has it

	link *trace.Link // to the caller's span, if that is sampled
	answer
}

// linkTo returns a link to the span of a context if that is sampled. A span's
// context is large: inlined, it would lie on the stack of every caller that sleeps.
//
//go:noinline
func linkTo(ctx context.Context) *trace.Link {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() {
		return &trace.Link{SpanContext: s}
	}
	return nil
}

// shape is how the ask appears in a call: count asks of size permits each.
func (a *ask) shape() (size, count int64) {
	if a.upTo {
		return 1, a.n
	}
	return a.n, 1
}

// answer is what the shard said to one ask.
type answer struct {
	granted int64
	at      int64         // shard time of the grant, microseconds
	ticket  uint64        // tells this grant from every other one of the lane
	now     int64         // when the reply came, on the client's clock
	delay   time.Duration // granted by a leaky bucket: until its last permit may act, from now on
	retry   time.Duration // refused: until it could be granted; unknownRetry if not told
}

const unknownRetry = time.Duration(-1)

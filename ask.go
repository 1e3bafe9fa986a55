package shardlimit

import "time"

// ask is what one call wants from one shard, and what it gets. It lives on the
// caller's stack: a batch knows how many asks it carries, not which. The callers
// who sleep are many, and what lies on their stacks has left the caches when they
// wake. So the functions that put it on a batch, and those that read the answer, are
// called before and after the caller sleeps, and not around it.
type ask struct {
	seat  *seat // whom it is for
	n     int64
	table *table // in force when the call began; nil unless it is the first of a call
	since int64  // when the call began, on the client's clock
	upTo  bool   // take what there is, up to n; else all or nothing

	// Its place, set by join:
	class  int32 // of the batch's classes
	batch  *batch
	place  int64  // how many of the class came before
	serial uint64 // no other ask of the batch has it
	answer
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

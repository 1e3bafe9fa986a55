package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// MaxReleases is the most releases a peek reports.
const MaxReleases = 32

// Release is a number of permits that become free together after In.
type Release struct {
	In      time.Duration
	Permits int64
}

// PeekReply is a shard as a take would find it.
type PeekReply struct {
	Status                      Status // OK or Absent
	Epoch, Target, Share, Start int64
	Used                        int64 // with what is booked ahead, so it may be more than Share
	Free                        int64 // what a take can have now
	Window                      time.Duration
	Closed                      time.Duration // what is left of the quarantine
	Reset                       time.Duration // until everything is free if nothing more is used
	// Releases come oldest first and add up to Used, except that a bucket which leaves to another
	// algorithm has none; neighbours are merged into the later one, so none is announced too early.
	Releases []Release
}

// Peek looks at a shard. It writes nothing and creates nothing.
func (e *Endpoint) Peek(ctx context.Context, s ShardRef) (PeekReply, error) {
	return ask(ctx, e, s.algorithm.programOf(peekProgram), s.keys(), nil, parsePeek)
}

func parsePeek(p *program, reply []rueidis.RedisMessage) (PeekReply, error) {
	var n [peekFree + 1 + 2*MaxReleases]int64
	if len(reply) <= peekFree || len(reply) > len(n) || (len(reply)-peekFree)%2 != 1 {
		return PeekReply{}, malformed(p, "wrong length")
	}
	numbers := n[:len(reply)]
	if err := counts(p, reply, numbers, 0); err != nil {
		return PeekReply{}, err
	}
	if n[peekStatus] > int64(OK) {
		return PeekReply{}, malformed(p, "out of range")
	}
	peek := PeekReply{
		Status: Status(n[peekStatus]), Epoch: n[peekEpoch], Target: n[peekTarget], Share: n[peekShare],
		Start: n[peekStart], Used: n[peekUsed], Free: n[peekFree], Window: duration(n[peekWindow]),
		Closed: duration(n[peekClosed]), Reset: duration(n[peekReset]),
	}
	for i := peekFree + 1; i < len(numbers); i += 2 {
		peek.Releases = append(peek.Releases, Release{In: duration(n[i]), Permits: n[i+1]})
	}
	return peek, nil
}

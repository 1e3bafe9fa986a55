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
	const first = 10 // of the numbers of releases
	var n [first + 2*MaxReleases]int64
	if len(reply) < first || len(reply) > len(n) || (len(reply)-first)%2 != 0 {
		return PeekReply{}, malformed(p, "wrong length")
	}
	numbers := n[:len(reply)]
	if err := counts(p, reply, numbers, nil); err != nil {
		return PeekReply{}, err
	}
	if n[0] > int64(OK) {
		return PeekReply{}, malformed(p, "out of range")
	}
	peek := PeekReply{
		Status: Status(n[0]), Epoch: n[1], Target: n[2], Share: n[3], Start: n[4], Used: n[5],
		Window: duration(n[6]), Closed: duration(n[7]), Reset: duration(n[8]), Free: n[9],
	}
	for i := first; i < len(numbers); i += 2 {
		peek.Releases = append(peek.Releases, Release{In: duration(n[i]), Permits: n[i+1]})
	}
	return peek, nil
}

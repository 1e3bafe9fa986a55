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

// Load is what stands beside a take after In, until the next one.
type Load struct {
	In      time.Duration
	Permits int64
}

// PeekReply is a shard as a take would find it.
type PeekReply struct {
	Status                      Status // OK or Absent
	Epoch, Target, Share, Start int64
	// with what is booked ahead, so it may be more than Share; of a FixedWindow, with what is
	// booked in the window that now is
	Used int64
	Free int64 // what a take can have now
	// what would be left if all that is booked ahead were in use: a reservation goes behind it
	Spare  int64
	Window time.Duration
	Closed time.Duration // what is left of the quarantine
	Reset  time.Duration // until everything is free if nothing more is used
	// Releases come oldest first and add up to Used, except that a bucket which leaves to another
	// algorithm has none; neighbours are merged into the later one, so none is announced too early.
	Releases []Release
	// Beside is what stands beside takes, in order of time and beginning now: a take can have what
	// the share leaves. It falls with the releases, and rises where something booked ahead comes
	// into one window with what is taken.
	Beside []Load
}

// Peek looks at a shard. It writes nothing and creates nothing.
func (e *Endpoint) Peek(ctx context.Context, s ShardRef) (PeekReply, error) {
	reply, err := e.run(ctx, s.program(peekProgram), s.keys(), nil)
	if err != nil {
		return PeekReply{}, err
	}
	if s.algorithm != AlgorithmSlidingLog {
		return parsePackedPeek(reply)
	}
	return parsePeek(reply)
}

func parsePeek(reply []rueidis.RedisMessage) (PeekReply, error) {
	p := &programs[peekProgram]
	var n [peekCrests + 1 + 3*(mostCrests+1) + 2*MaxReleases]int64
	if len(reply) <= peekCrests || len(reply) > len(n) {
		return PeekReply{}, malformed(p, "wrong length")
	}
	numbers := n[:len(reply)]
	if err := integers(p, reply, numbers); err != nil {
		return PeekReply{}, err
	}
	if !natural(numbers) || n[peekStatus] > int64(OK) || n[peekCrests] > mostCrests+1 {
		return PeekReply{}, malformed(p, "out of range")
	}
	crests := peekCrests + 1 + 3*int(n[peekCrests])
	if more := len(numbers) - crests; more < 0 || more%2 != 0 || more > 2*MaxReleases {
		return PeekReply{}, malformed(p, "wrong length")
	}
	peek := lookedAt(numbers)
	for i := crests; i < len(numbers); i += 2 {
		peek.Releases = append(peek.Releases, Release{In: duration(n[i]), Permits: n[i+1]})
	}
	var all []crest
	for i := peekCrests + 1; i < crests; i += 3 {
		all = append(all, crest{start: n[i], held: n[i+1], upto: n[i+2]})
	}
	if peek.Status == OK {
		peek.weigh(all)
	}
	return peek, nil
}

// lookedAt is what looks at shards of all algorithms have in common.
func lookedAt(n []int64) PeekReply {
	return PeekReply{
		Status: Status(n[peekStatus]), Epoch: n[peekEpoch], Target: n[peekTarget], Share: n[peekShare],
		Start: n[peekStart],
		Used:  n[peekUsed], Window: duration(n[peekWindow]), Closed: duration(n[peekClosed]),
		Reset: duration(n[peekReset]),
	}
}

package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// Status says what state an operation found or made.
type Status int64

const (
	// Absent: there is no state, and none was created.
	Absent Status = iota
	// OK: the state was there.
	OK
	// Fresh: the state was created, or started over after a loss that the proposal does not quarantine.
	Fresh
	// Lost: the state was created, or started over, in quarantine, because the node had lost its memory.
	Lost
)

// String returns the status in one word.
func (s Status) String() string {
	switch s {
	case Absent:
		return "absent"
	case OK:
		return "ok"
	case Fresh:
		return "fresh"
	case Lost:
		return "lost"
	}
	return "unknown"
}

// TakeRequest proposes a share and asks for permits.
type TakeRequest struct {
	Proposal *Proposal
	// Known is how long the limit is known to have existed; 0: not known. On a node that has been up for less, by more than a second, and
	// for less than the window, absent state means a loss.
	Known time.Duration
	// Seen tells that the caller saw this state alive and that it cannot have expired since, so that its absence means a loss. That is so
	// for the proposal's keep after every reply with Used > 0: denials and looks do not prolong the state's life.
	Seen   bool
	Groups []Group // at most MaxGroups; none: only propose and look
}

// TakeReply is one shard's answer to a take.
type TakeReply struct {
	Status Status
	// Epoch is the one stored now: above the caller's, the caller is behind. Target is the share wanted under it, Share the one in
	// force, Start the one in force when the epoch was adopted.
	Epoch, Target, Share, Start int64
	Before                      int64 // free permits before the grants
	Granted                     int64 // permits granted in all: what Distribute makes of Before
	Free                        int64 // free permits after the grants
	Used                        int64 // permits in the log after the grants
	At                          int64 // shard time of the grants in microseconds: what Refund needs
	// Next is the time until the next permits leave the log, or until the quarantine ends; 0: nothing is in the log.
	Next time.Duration
	// Retry is 0 if everything was granted, and otherwise the time after which the first refused ask can be granted if nobody else takes
	// any; -1 if it is larger than the share in force or than its target, so that waiting does not help.
	Retry time.Duration
	// Reset is the time until everything is free if nothing more is used.
	Reset time.Duration
	// Closed is what is left of the quarantine; 0: none. While it lasts nothing is granted and a lowered share does not follow its log down.
	Closed time.Duration
}

// Take proposes a share to a shard and takes permits from it, in one round trip and at most once: a lost reply means that the permits may
// have been spent. See [NotExecuted] for errors after which they surely were not.
func (e *Endpoint) Take(ctx context.Context, s ShardRef, r *TakeRequest) (TakeReply, error) {
	if err := r.check(); err != nil {
		return TakeReply{}, err
	}
	var room [7 + 2*4]string // most requests have at most four groups
	reply, err := e.run(ctx, takeProgram, s.head, s.log, r.arguments(room[:0]))
	if err != nil {
		return TakeReply{}, err
	}
	return parseTake(reply, r)
}

func (r *TakeRequest) check() error {
	if r == nil || r.Proposal == nil {
		return invalid("no proposal")
	}
	return checkGroups(r.Groups)
}

func (r *TakeRequest) arguments(args []string) []string {
	p := r.Proposal
	args = append(args, p.epochText, p.targetText, p.floorText, p.windowText, p.ttlText, smallNumbers[r.flags()])
	if known := r.known(); known == enough(p.window) {
		args = append(args, p.knownText)
	} else {
		args = append(args, number(known))
	}
	for _, group := range r.Groups {
		args = append(args, number(group.Size), number(group.Count))
	}
	return args
}

func (r *TakeRequest) flags() (flags int) {
	if r.Seen {
		flags = 1
	}
	if r.Proposal.quarantine {
		flags += 2
	}
	return flags
}

// known returns Known in microseconds, cut off where more of it changes nothing.
func (r *TakeRequest) known() int64 {
	return min(max(int64(r.Known/time.Microsecond), 0), enough(r.Proposal.window))
}

func parseTake(reply []rueidis.RedisMessage, r *TakeRequest) (TakeReply, error) {
	p := &programs[takeProgram]
	var n [13]int64
	if len(reply) != len(n) {
		return TakeReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return TakeReply{}, err
	}
	if !natural(n[:10]) || !natural(n[11:]) || n[0] > int64(Lost) {
		return TakeReply{}, malformed(p, "negative")
	}
	t := TakeReply{
		Status: Status(n[0]), Epoch: n[1], Target: n[2], Share: n[3], Start: n[4],
		Before: n[5], Granted: n[6], Free: n[5] - n[6], Used: n[7], At: n[8],
		Next: duration(n[9]), Retry: wait(n[10]), Reset: duration(n[11]), Closed: duration(n[12]),
	}
	var room [MaxGroups]int64
	if _, granted := Distribute(room[:0], t.Before, r.Groups); granted != t.Granted || t.Before > t.Share {
		return TakeReply{}, malformed(p, "the grants do not add up")
	}
	return t, nil
}

// wait converts a duration for which -1 means never.
func wait(us int64) time.Duration {
	if us < 0 {
		return -1
	}
	return duration(us)
}

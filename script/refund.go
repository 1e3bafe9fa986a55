package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// RefundRequest gives back Permits (1 to [MaxPermits]) of a grant; At is what its [TakeReply] gave
// as At, or as RefundAt if the algorithm may be LeakyBucket.
type RefundRequest struct {
	Permits int64
	At      int64
	// Caller is the participant to which it was granted: while participants contend, what comes
	// back does not count as used by it any more. Only ID and Slot are looked at; no ID: anonymous.
	Caller Caller
	// Held is for how long the participant has held the permits, at least 0. That has its price:
	// permits that were held for a whole window cost as much as permits that were used.
	Held time.Duration
}

// RefundReply tells what a refund did.
type RefundReply struct {
	Status Status // OK or Absent
	// Refunded is how many permits are free again because of this call: 0 if they had left the
	// window or the state is gone. A token bucket takes back only what has not been gained again
	// since, a leaky bucket only the last turns it gave.
	Refunded int64
	Free     int64 // as in PeekReply
	Epoch    int64
	Share    int64
}

// Refund gives permits back: at most what the entry that holds the grant still holds. Dates of
// entries do not move, so nothing that others use is freed early. It is sent at most once; giving
// the same permits back only once is the caller's duty.
func (e *Endpoint) Refund(ctx context.Context, s ShardRef, r RefundRequest) (RefundReply, error) {
	if err := r.check(); err != nil {
		return RefundReply{}, err
	}
	var room [5]string
	reply, err := e.run(ctx, s.program(refundProgram), s.keys(), r.arguments(room[:0]))
	if err != nil {
		return RefundReply{}, err
	}
	return parseRefund(reply)
}

func (r RefundRequest) arguments(args []string) []string {
	args = append(args, number(r.Permits), number(r.At))
	if r.Caller.ID != "" {
		args = append(args, r.Caller.ID, number(int64(r.Caller.Slot)), number(r.held()))
	}
	return args
}

// held returns Held in whole microseconds.
func (r RefundRequest) held() int64 { return int64(r.Held / time.Microsecond) }

func (r RefundRequest) check() error {
	if r.Permits < 1 || r.Permits > MaxPermits || r.At < 0 || r.At > MaxEpoch || r.Held < 0 {
		return invalid("a refund of %d permits granted at %d, held for %v", r.Permits, r.At, r.Held)
	}
	if r.Caller.ID != "" && !r.Caller.Named() {
		return invalid("a refund to a caller %+v", r.Caller)
	}
	return nil
}

func parseRefund(reply []rueidis.RedisMessage) (RefundReply, error) {
	p := &programs[refundProgram]
	var n [5]int64
	if len(reply) != len(n) {
		return RefundReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return RefundReply{}, err
	}
	if !natural(n[:]) || n[0] > int64(OK) {
		return RefundReply{}, malformed(p, "out of range")
	}
	return RefundReply{Status: Status(n[0]), Refunded: n[1], Free: n[2], Epoch: n[3], Share: n[4]}, nil
}

package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// ReserveRequest asks for permits at the first instant at which there is room for them.
type ReserveRequest struct {
	Proposal *Proposal
	Relied
	Permits int64 // 1 to MaxPermits, all or none
	// MaxDelay is how far ahead the permits may be; 0: now or not at all. They are never farther
	// ahead than a window of the shard, or than the time in which a burst of a bucket comes.
	MaxDelay time.Duration
	// MinDelay is how far ahead they must be at least, for permits of several shards that are to be
	// used together: whoever uses a permit later than its date has it back too early. More than
	// MaxDelay is an error.
	MinDelay time.Duration
	// Caller is the participant that books: while participants contend, its credit pays for what it
	// books. Unmet is not looked at; no ID: anonymous.
	Caller Caller
}

// ReserveReply is one shard's answer to a reservation, and what a take that asks for nothing would
// find after it. Of the fields of TakeReply
//
//   - Granted is Permits, or 0: refused, and nothing was written but what a take that asks for
//     nothing writes;
//   - At is what Settle needs to cancel them, exactly and without moving what others have booked:
//     under a sliding log the shard time, in microseconds, from which on the permits may be used,
//     now or ahead;
//   - Retry is, if refused, the delay that the permits would have now, or -1 if they can never be
//     granted as in a take;
//   - Used counts what is booked ahead, so it may be more than Share;
//   - Before is Free and Granted together.
type ReserveReply struct {
	TakeReply
	// Delay is the time from when the shard answered until the permits may be used; 0: at once.
	Delay time.Duration
	// Paced is set if the request was refused for the sake of others only: so long will it take
	// until the participant's credit can pay for it. It would be granted with a MinDelay of so
	// much, as far as there is room, or later.
	Paced time.Duration
}

// Reserve proposes a share to a shard and takes permits that may be used from an instant on that
// the reply tells: now, if they are free, else the earliest one at which there is room for them
// behind everything that is booked before. Every window that holds that date counts them. (A
// FixedWindow has room in the next window, a LeakyBucket gives turns.) Like a take it is executed
// at most once: a lost reply means that they may have been booked.
func (e *Endpoint) Reserve(ctx context.Context, s ShardRef, r *ReserveRequest) (ReserveReply, error) {
	if r.MinDelay > r.MaxDelay {
		return ReserveReply{}, invalid("a delay of %v to %v", r.MinDelay, r.MaxDelay)
	}
	var room [10]string
	p := s.algorithm.programOf(reserveProgram)
	return ask(ctx, e, p, s.creating(r.take()), r.arguments(room[:0]), r.parse)
}

// take is the take that proposes the same.
func (r *ReserveRequest) take() *TakeRequest {
	return &TakeRequest{Proposal: r.Proposal, Relied: r.Relied}
}

func (r *ReserveRequest) arguments(args []string) []string {
	args = append(r.take().proposed(args), number(r.Permits), number(r.maxDelay()), "0", number(r.after()))
	if r.Caller.ID != "" {
		args = append(args, r.Caller.ID, number(r.Caller.Weight), number(r.Caller.Waiting))
	}
	return args
}

// maxDelay returns MaxDelay in whole microseconds: less than one that would round up.
func (r *ReserveRequest) maxDelay() int64 {
	return int64(min(r.MaxDelay, 10*MaxWindow) / time.Microsecond)
}

// after returns MinDelay in microseconds, rounded up but to no more than maxDelay.
func (r *ReserveRequest) after() int64 {
	return min(int64((min(r.MinDelay, 10*MaxWindow)+time.Microsecond-1)/time.Microsecond), r.maxDelay())
}

func (r *ReserveRequest) parse(p *program, reply []rueidis.RedisMessage) (ReserveReply, error) {
	var n [reserveNumbers]int64
	if err := readNumbers(p, reply, n[:]); err != nil {
		return ReserveReply{}, err
	}
	if n[replyGranted] != 0 && (n[replyGranted] != r.Permits || n[reserveDelay] > r.maxDelay()) {
		return ReserveReply{}, malformed(p, "not what was asked for")
	}
	return ReserveReply{common(n[:]), duration(n[reserveDelay]), duration(n[reservePaced])}, nil
}

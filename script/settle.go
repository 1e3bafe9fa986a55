package script

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// SettleRequest makes what was granted what was used: it gives back what was not, or charges what
// was used beyond it.
type SettleRequest struct {
	// Back is how many permits come back of the grant made at At, 0 to [MaxPermits]. At is what its
	// [TakeReply] gave as At, or as RefundAt if the algorithm may be LeakyBucket.
	Back int64
	At   clock.ServerTime
	// Charge is how many permits were used that nobody granted, 0 to MaxPermits. They count, though
	// they may not be free, as far as they make a difference: see SettleReply.Granted.
	Charge int64
	// Owed is after how long a bucket that is charged must be full again, at most ten times
	// MaxWindow. What takes longer to pay is not charged.
	Owed time.Duration
	// Mark is the name of what is settled: 1 to 64 bytes, unique, without braces. It is settled
	// once, for as long as the mark is kept, which is MarkFor. "": it is not remembered.
	Mark    string
	MarkFor time.Duration
	// Used tells apart settlements under one Mark: one with the same number is the same one.
	Used int64
	// Caller is the participant to which it was granted. While participants contend, its credit has
	// what comes back, and pays what is charged. Only ID and Slot are looked at; no ID: anonymous.
	// So is what was booked and is not wanted any more: others hear that it comes back early. Parts
	// that a booking gives back at once have an ID, and nobody hears of them.
	Caller Caller
	// These are as in TakeRequest, and must be there for a Charge. Without a Proposal nothing is
	// created or adopted.
	Proposal *Proposal
	Relied
}

// SettleReply is what a take that asks for nothing would find after it; Granted is how many permits
// were charged. Under the algorithms with a window more than the share makes no difference, and in
// quarantine nothing is charged.
type SettleReply struct {
	TakeReply
	// Back is how many permits are free again because of this call: 0 if they had left the window,
	// or were granted by a state that is gone. A bucket takes back only what it did not gain again.
	Back     int64
	Repeated Repeated
}

// Repeated tells whether something was settled before. Then nothing was done.
type Repeated int64

const (
	First   Repeated = iota
	Again            // it was, with the same Used
	Another          // it was, with another
)

// Settle gives permits back, at most what the entry that holds the grant still holds, or charges
// permits. Dates of entries do not move, so nothing that others use is freed early. With a Mark it
// may be sent again after a lost reply.
func (e *Endpoint) Settle(ctx context.Context, s ShardRef, r SettleRequest) (SettleReply, error) {
	if s.head == "" {
		return SettleReply{}, errNoKey
	}
	var room [10]string
	p := s.algorithm.programOf(settleProgram)
	return ask(ctx, e, p, s.settleKeys(&r), r.arguments(s.algorithm, room[:0]), r.parse)
}

// settleKeys returns the keys in the order in which the script declares them: the mark is the last
// but one.
func (s ShardRef) settleKeys(r *SettleRequest) []string {
	keys := s.creating(r.take(s.algorithm))
	if r.Mark == "" {
		return keys
	}
	slot := s.head[:strings.IndexByte(s.head, '}')+2]
	return slices.Insert(keys, len(keys)-1, slot+"s:"+r.Mark)
}

func (r *SettleRequest) arguments(a Algorithm, args []string) []string {
	markFor := int64(0) // milliseconds; 0: there is none
	if r.Mark != "" {
		markFor = max(milliseconds(r.MarkFor), 1)
	}
	args = append(r.take(a).proposed(args), number(r.Back), number(int64(r.At)), number(r.Charge),
		number(int64(r.Owed/time.Microsecond)), number(r.Used), number(markFor))
	if r.Caller.ID != "" {
		args = append(args, r.Caller.ID)
	}
	return args
}

// take is the take that proposes the same.
func (r *SettleRequest) take(a Algorithm) *TakeRequest {
	return &TakeRequest{Proposal: cmp.Or(r.Proposal, nothing[a]), Relied: r.Relied}
}

// nothing is what a call proposes that finds what is there and creates nothing.
var nothing = func() (all [algorithms]*Proposal) {
	for a := range algorithms {
		all[a], _ = Terms{Algorithm: a}.Proposal() // of epoch 0, which is always valid
	}
	return all
}()

func (r *SettleRequest) parse(p *program, reply []rueidis.RedisMessage) (SettleReply, error) {
	var n [settleNumbers]int64
	if err := readNumbers(p, reply, n[:]); err != nil {
		return SettleReply{}, err
	}
	if n[replyGranted] > r.Charge || n[settleBack] > r.Back || n[settleRepeated] > int64(Another) {
		return SettleReply{}, malformed(p, "out of range")
	}
	return SettleReply{TakeReply: common(n[:]), Back: n[settleBack], Repeated: Repeated(n[settleRepeated])}, nil
}

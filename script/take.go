package script

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// Status says what state an operation found or made.
type Status int64

const (
	// Absent: there is no state, and none was created: nothing was proposed, or the deadline of the
	// proposal was over. At is the node's time then.
	Absent Status = iota
	// OK: the state was there.
	OK
	// Fresh: the state was created, or started over after a loss that the proposal does not
	// quarantine.
	Fresh
	// Lost: the state was created, or started over, in quarantine, because the node had lost its
	// memory.
	Lost
	// Fenced: the call came after its Fence. At is the node's time then.
	Fenced
)

// Unconfirmed is the deadline of a caller whose word is not to be taken for an epoch: it creates no
// state.
const Unconfirmed clock.ServerTime = -1

// Relied is what a call relies on.
type Relied struct {
	// Known is how long the limit is known to have existed; 0: not known. On a node that has been
	// up for less, by more than a second, and for less than the window, absent state means a loss.
	Known time.Duration
	// Seen tells that the caller saw this state alive and that it cannot have expired since, so
	// that its absence means a loss. That is so for the proposal's keep after every reply with
	// Used > 0: denials and looks do not prolong the state's life.
	Seen bool
	// Deadline is the time of the node until which a state that does not exist may be created, or
	// one of an earlier epoch adopt the proposal; 0: no end; [Unconfirmed]: not at all. After it
	// the reply is Absent, and nothing was granted or written.
	Deadline clock.ServerTime
	// Fence is the time of the node until which this call may do anything; 0: no
	// end. After it the reply is Fenced, and nothing was granted or written.
	Fence clock.ServerTime
}

// TakeRequest proposes a share and asks for permits.
type TakeRequest struct {
	Proposal *Proposal
	Relied
	Groups []Group // at most MaxGroups; none: only propose and look
	// Callers are the participants that the groups belong to, at most MaxCallers. Without any the
	// request is anonymous: it is never held back for the sake of others, and what is refused to it
	// is no sign that they contend.
	Callers []Caller
	// Room and CallerRoom are where the reply's Grants and Callers are put, if they are large
	// enough; so that nothing need be allocated.
	Room       []int64
	CallerRoom []time.Duration
	// Rare asks the full take at once, which spares a call where the state is other than proposed:
	// booked, contended, closed. Takes set it for the next one.
	Rare bool
	// Contended asks the paced take first. It serves a Rare take of a log where all that is other
	// than proposed is that participants contend, and the share is the target. Takes set it for the
	// next one.
	Contended bool
}

// TakeReply is one shard's answer to a take.
type TakeReply struct {
	Status Status
	InForce
	Before  int64 // free permits before the grants
	Granted int64 // permits granted in all
	Free    int64 // free permits after the grants
	Used    int64 // permits in the log after the grants; more than Share where permits are booked ahead
	// At is what Settle needs: the shard time of the grants, but see RefundAt.
	At clock.ServerTime
	Waits
	// Grants is how many asks of each group were granted, whole: what Distribute makes of Before,
	// unless participants contend.
	Grants []int64
	// Contended tells that participants contend for the shard: then who has more than its fair part
	// is held back. Callers has an element for each caller then, and is empty otherwise.
	Contended bool
	Callers   []time.Duration
	turns     turns // under LeakyBucket: see DelayOf
}

// InForce is what a shard goes by.
type InForce struct {
	// Epoch is the one stored now: above the caller's, the caller is behind.
	Epoch int64
	// Target is the share wanted under it, Share the one in force, Start the one in force when the
	// epoch was adopted; Start is told only to requests without Groups, else it is 0.
	Target, Share, Start int64
}

// Waits is when what is in use comes back.
type Waits struct {
	// Next is the time until the next permits leave the log, or, where none is free, until so many
	// have left that one can be granted, or until the quarantine ends; 0: nothing is in the log.
	Next time.Duration
	// Retry is 0 if everything was granted, and otherwise the time after which the first refused
	// ask finds enough permits free if nobody else takes any; -1 if it is larger than the share in
	// force or than its target, so that waiting does not help. While participants contend it may be
	// 0 for an ask that was refused although there was enough, for the sake of others; then Callers
	// tell when to come back.
	Retry time.Duration
	// Reset is the time until everything is free if nothing more is used.
	Reset time.Duration
	// Closed is what is left of the quarantine; 0: none. While it lasts nothing is granted and a
	// lowered share does not follow its log down.
	Closed time.Duration
	// Early tells that permits came back early in the last window: so may others.
	Early bool
}

// Owes reports whether what keeps permits from being free is that more is in use than there is:
// some were booked ahead, or charged although none were free. The take proposed p.
func (t *TakeReply) Owes(p *Proposal) bool {
	if p.algorithm.Bursty() { // else one permit comes in a part of the window
		return t.Free == 0 && t.Share > 0 && t.Next > duration(p.window/t.Share+2)
	}
	return t.Used > t.Share
}

// turns says when permits of a leaky bucket act: permit k, counted from 0, after us + (part +
// k*window)/share microseconds.
type turns struct{ us, part, window int64 }

// DelayOf returns the time until permit k of those granted, counted from 0 in the order of the
// asks, may act, rounded up to microseconds. An ask acts with its last permit. Turns are exactly
// window/share apart. 0 unless the algorithm is LeakyBucket.
func (t *TakeReply) DelayOf(k int64) time.Duration {
	if t.turns == (turns{}) {
		return 0
	}
	us, rest := mulDiv(t.turns.window, k, t.turns.part, t.Share)
	if rest > 0 {
		us++
	}
	return duration(t.turns.us + us)
}

// RefundAt returns what Settle needs for an ask whose last permit is permit k: At, but under
// LeakyBucket when that permit acts.
func (t *TakeReply) RefundAt(k int64) clock.ServerTime {
	return t.At + clock.ServerTime(t.DelayOf(k)/time.Microsecond)
}

// Take proposes a share to a shard and takes permits from it, at most once: a
// lost reply means that the permits may have been spent. See [NotExecuted] for errors after which
// they surely were not.
func (e *Endpoint) Take(ctx context.Context, s ShardRef, r *TakeRequest) (TakeReply, error) {
	section := Section{Ref: s, Request: r}
	e.TakeAll(ctx, []*Section{&section})
	return section.Reply, section.Err
}

func parseTake(p *program, reply []rueidis.RedisMessage, r *TakeRequest) (TakeReply, error) {
	var n [takeWindow + 1]int64
	length := takeRare + 1
	if r.Proposal.algorithm == AlgorithmLeakyBucket {
		length = takeWindow + 1
	}
	if err := readNumbers(p, reply[:min(length, len(reply))], n[:length]); err != nil {
		return TakeReply{}, err
	}
	if n[takeRare] > 1 {
		return TakeReply{}, malformed(p, "out of range")
	}
	t := common(n[:])
	if len(r.Groups) == 0 {
		t.Start = n[replyStart]
	} else {
		r.Rare = t.Status != Fresh && n[takeRare] == 1
	}
	asProposed := t.Share == r.Proposal.floor && t.Epoch == r.Proposal.epoch
	r.Contended = r.Rare && !r.Contended && len(reply) > length && asProposed
	t.Grants = r.Room[:0]
	most := t.Share
	if r.Proposal.algorithm.Bursty() {
		most = MaxPermits
	}
	if t.Before > most {
		return TakeReply{}, malformed(p, "more free than there can be")
	}
	granted := int64(0)
	if more := len(reply) - length; more > 0 {
		var n [MaxGroups + MaxCallers]int64
		if len(r.Callers) == 0 || more != len(r.Groups)+len(r.Callers) {
			return TakeReply{}, malformed(p, "wrong length")
		}
		if err := integers(p, reply[length:], n[:more]); err != nil {
			return TakeReply{}, err
		}
		if err := t.parseContended(p, n[:more], r); err != nil {
			return TakeReply{}, err
		}
	} else if t.Grants, granted = Distribute(t.Grants, t.Before, r.Groups); granted != t.Granted {
		return TakeReply{}, malformed(p, "the grants do not add up")
	}
	if r.Proposal.algorithm == AlgorithmLeakyBucket && t.Granted > 0 {
		if t.Share == 0 || n[takePart] >= t.Share || n[takeWindow] < 1 {
			return TakeReply{}, malformed(p, "turns out of range")
		}
		t.turns = turns{n[takeDelay], n[takePart], n[takeWindow]}
	}
	return t, nil
}

// common is what the replies to takes and reservations have in common.
func common(n []int64) TakeReply {
	return TakeReply{
		Status:  Status(n[replyStatus]),
		InForce: InForce{Epoch: n[replyEpoch], Target: n[replyTarget], Share: n[replyShare]},
		Before:  n[replyBefore], Granted: n[replyGranted], Free: max(n[replyBefore]-n[replyGranted], 0),
		Used: n[replyUsed], At: clock.ServerTime(n[replyAt]),
		Waits: Waits{Next: duration(n[replyNext]), Retry: wait(n[replyRetry]), Reset: duration(n[replyReset]),
			Closed: duration(n[replyClosed]), Early: n[replyEarly] > 0},
	}
}

// parseContended reads what a contended take adds: the grants of each group, then the retry of
// each caller.
func (t *TakeReply) parseContended(p *program, n []int64, r *TakeRequest) error {
	t.Contended, t.Callers = true, r.CallerRoom[:0]
	left := t.Before
	for i, group := range r.Groups {
		if n[i] < 0 || n[i] > group.Count || group.Size < 1 || n[i] > left/group.Size {
			return malformed(p, "the grants do not add up")
		}
		left -= n[i] * group.Size
		t.Grants = append(t.Grants, n[i])
	}
	if left != t.Free {
		return malformed(p, "the grants do not add up")
	}
	for _, retry := range n[len(r.Groups):] {
		if retry < 0 {
			return malformed(p, "out of range")
		}
		t.Callers = append(t.Callers, duration(retry))
	}
	return nil
}

// wait converts a duration for which -1 means never.
func wait(us int64) time.Duration {
	if us < 0 {
		return -1
	}
	return duration(us)
}

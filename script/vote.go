package script

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// What a place of a register that a majority keeps can be asked.
const (
	VoteRead    = 1 + iota // how it stands; writes nothing
	VotePrepare            // promise the ballot
	VoteAccept             // take the value, for a place that votes
	VoteRestore            // take the value, for a place that is blank, and vote from then on
)

const (
	maxVoteValue = 1 << 20 // bytes of a value
	maxVoteMark  = 256     // bytes of a mark
)

// VoteBallot numbers a round: 0 to 2^53-1 each.
type VoteBallot struct{ Round, Proposer int64 }

// VoteRequest is a message for one place.
type VoteRequest struct {
	Kind   int
	Ballot VoteBallot // not needed to read
	Mark   string     // of an accept or a restore: the life of the place that promised the ballot
	Value  string     // likewise
}

// VoteReply is how the place stands after the message.
type VoteReply struct {
	Done               bool // what was asked was done
	Votes              bool
	Age                time.Duration // for how long it has held the value, by its own clock
	Now                int64         // the time of its node in microseconds
	Promised, Accepted VoteBallot
	Mark, Value        string
}

// VoteRef names the key of a place. The zero value names none.
type VoteRef struct{ key string }

// VoteKey returns the key of one place of a register, under the same rules as [ShardKeys].
func VoteKey(prefix, tag, name string) VoteRef {
	if !taggable(prefix, tag) {
		return VoteRef{}
	}
	return VoteRef{key: prefix + "{" + tag + "}:m:" + name}
}

// Key returns the key.
func (v VoteRef) Key() string { return v.key }

// Vote asks one place of a register. What the messages mean says internal/majority.
func (e *Endpoint) Vote(ctx context.Context, ref VoteRef, r VoteRequest) (VoteReply, error) {
	if err := r.check(); err != nil {
		return VoteReply{}, err
	}
	reply, err := e.run(ctx, voteProgram, [3]string{ref.key},
		[]string{strconv.Itoa(r.Kind), r.Ballot.text(), r.Mark, r.Value})
	if err != nil {
		return VoteReply{}, err
	}
	return parseVote(reply)
}

func (r VoteRequest) check() error {
	switch {
	case r.Kind < VoteRead || r.Kind > VoteRestore:
		return invalid("a vote of kind %d", r.Kind)
	case !r.Ballot.valid() || r.Kind != VoteRead && r.Ballot == (VoteBallot{}):
		return invalid("ballot %d of %d", r.Ballot.Round, r.Ballot.Proposer)
	case len(r.Mark) > maxVoteMark || len(r.Value) > maxVoteValue:
		return invalid("a mark of %d bytes, a value of %d", len(r.Mark), len(r.Value))
	}
	return nil
}

func (b VoteBallot) valid() bool {
	return b.Round >= 0 && b.Round <= MaxEpoch && b.Proposer >= 0 && b.Proposer <= MaxEpoch
}

func (b VoteBallot) text() string { return fmt.Sprintf("%016d%016d", b.Round, b.Proposer) }

func parseVote(reply []rueidis.RedisMessage) (VoteReply, error) {
	p := &programs[voteProgram]
	var n [5]int64
	if len(reply) != len(n)+4 {
		return VoteReply{}, malformed(p, "wrong length")
	}
	if err := integers(p, reply, n[:]); err != nil {
		return VoteReply{}, err
	}
	var texts [4]string
	for i := range texts {
		text, err := reply[len(n)+i].ToString()
		if err != nil {
			return VoteReply{}, malformed(p, "a text is none")
		}
		texts[i] = text
	}
	promised, sound := voteBallot(texts[0])
	accepted, also := voteBallot(texts[1])
	if !sound || !also || !natural(n[:]) || n[1] > 1 || n[2] > 1 {
		return VoteReply{}, malformed(p, "out of range")
	}
	return VoteReply{Done: n[1] == 1, Votes: n[2] == 1, Age: duration(n[3]), Now: n[4], Promised: promised,
		Accepted: accepted, Mark: texts[2], Value: texts[3]}, nil
}

func voteBallot(text string) (b VoteBallot, sound bool) {
	if len(text) != 32 {
		return b, false
	}
	round, bad := strconv.ParseUint(text[:16], 10, 63)
	proposer, worse := strconv.ParseUint(text[16:], 10, 63)
	b = VoteBallot{int64(round), int64(proposer)}
	return b, bad == nil && worse == nil && b.valid()
}

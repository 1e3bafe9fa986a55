package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/majority"
)

// VoteList asks a place that has moved which records it holds. The other kinds of messages are
// those of internal/majority. A read, too, writes that a participant is there.
const VoteList = majority.Restore + 1

// VoteSuccessor is the record that closes a place: one that has accepted a value of it takes
// nothing else any more.
const VoteSuccessor = "successor"

// VoteRequest is a message for one place.
type VoteRequest struct {
	Kind   majority.Kind
	Ballot majority.Ballot // not needed to read
	// Of an accept or a restore: the life of the place that promised the ballot, the value, and
	// for how long the register is known to have had one.
	Mark  string
	Value string
	Known time.Duration
	// Alone tells that the register has no other place. One that holds no value votes then, as
	// nobody else knows more.
	Alone bool
	Keep  time.Duration // how long the place lives after this, from 1ms; 0: it does not end by itself
	// Of a read. With no Participant it writes nothing; ParticipantTTL then only says whom to
	// count.
	Participant    string
	ParticipantTTL time.Duration // how long one that was not heard of still counts, from 1ms
	After          int           // of a list: how many records come before those that are told
}

// VoteRecord is a record in the list of a place.
type VoteRecord struct {
	Name string
	Keep time.Duration // for how long it lives from now; 0: it does not end by itself
}

// VoteReply is how the place stands after the message.
type VoteReply struct {
	majority.Answer
	Now          clock.ServerTime
	Participants int64 // how many were alive, up to 10,000; only a read counts them
	Moved        bool  // the place takes nothing any more: see VoteSuccessor
}

// VoteRef names the keys of a place.
type VoteRef struct {
	name, participants, list string
	Place, Pointer           string // the key of the place itself, and that of its node's pointer
}

// VoteKey returns the keys of one place of a register, which may have any name, under the same
// rules as [ShardKeys]. All registers of a node have the tag of its pointer, and those that move
// together the same group.
func VoteKey(prefix, tag, group, name string) VoteRef {
	start := prefix + "{" + tag + "}:"
	of := group + ":" + name
	return VoteRef{name: name, Place: start + "m:" + of, participants: start + "p:" + of, list: start + "m:" + group,
		Pointer: PlacesKey(prefix, tag)}
}

func (v VoteRef) keys(alone bool) []string {
	if alone {
		return []string{v.Place, v.participants, v.list}
	}
	return []string{v.Place, v.participants, v.list, v.Pointer}
}

// Vote asks one place of a register. What the messages mean says internal/majority.
func (e *Endpoint) Vote(ctx context.Context, ref VoteRef, r VoteRequest) (VoteReply, error) {
	args := [11]string{number(int64(r.Kind)), ballotText(r.Ballot), r.Mark, r.Value,
		number(int64(r.Known / time.Microsecond)), number(milliseconds(r.Keep)), "0",
		r.Participant, number(int64(r.ParticipantTTL / time.Microsecond)), ref.name, number(int64(r.After))}
	if r.Alone {
		args[6] = "1"
	}
	return ask(ctx, e, &programs[voteProgram], ref.keys(r.Alone), args[:], parseVote)
}

func ballotText(b majority.Ballot) string { return fmt.Sprintf("%016d%016d", b.Round, b.Proposer) }

func parseVote(p *program, reply []rueidis.RedisMessage) (VoteReply, error) {
	var n [8]int64
	var texts [4]string
	if err := counts(p, reply, n[:], texts[:]); err != nil {
		return VoteReply{}, err
	}
	promised, sound := voteBallot(texts[0])
	accepted, also := voteBallot(texts[1])
	if !sound || !also || n[1] > 1 || n[2] > 1 || n[7] > 1 {
		return VoteReply{}, malformed(p, "out of range")
	}
	answer := majority.Answer{OK: n[1] == 1, Votes: n[2] == 1, Age: duration(n[3]), Known: duration(n[5]),
		Promised: promised, Accepted: accepted, Mark: texts[2], Value: texts[3]}
	return VoteReply{Answer: answer, Now: clock.ServerTime(n[4]), Participants: n[6], Moved: n[7] == 1}, nil
}

// Records returns the records that a list tells of.
func (r *VoteReply) Records() (all []VoteRecord, err error) {
	for rest := r.Value; rest != ""; {
		length, text, _ := strings.Cut(rest, ":")
		n, bad := strconv.Atoi(length)
		if bad != nil || n < 0 || n > len(text) {
			return nil, malformed(&programs[voteProgram], "a record in a list")
		}
		left, after, _ := strings.Cut(text[n:], " ")
		ms, bad := strconv.ParseUint(left, 10, 43)
		if bad != nil {
			return nil, malformed(&programs[voteProgram], "the time of a record in a list")
		}
		all, rest = append(all, VoteRecord{Name: text[:n], Keep: time.Duration(ms) * time.Millisecond}), after
	}
	return all, nil
}

func voteBallot(text string) (b majority.Ballot, sound bool) {
	if len(text) != 32 {
		return b, false
	}
	round, bad := strconv.ParseUint(text[:16], 10, 53)
	proposer, worse := strconv.ParseUint(text[16:], 10, 53)
	return majority.Ballot{Round: int64(round), Proposer: int64(proposer)}, bad == nil && worse == nil
}

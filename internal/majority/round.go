package majority

import (
	"cmp"
	"errors"
	"math/bits"
	"slices"
	"time"
)

// Why a round chose nothing.
var (
	// ErrOvertaken: a place has promised a higher ballot. Another round may do, after a pause.
	ErrOvertaken = errors.New("another round has a higher ballot")
	// ErrNoMajority: too few places answered or accepted. Whether the value was chosen is unknown
	// if the round had asked for that.
	ErrNoMajority = errors.New("no majority of the places answered")
	// ErrBlank: all places answered, but too few vote. The next round of this proposer may go on.
	ErrBlank = errors.New("too few places vote")
)

// Majority is how many of the places decide.
func Majority(places int) int { return places/2 + 1 }

// Proposer makes the rounds of one process for one register, one after the other.
type Proposer struct {
	id, round int64
	places    int
	marks     []string // the blank places that its last round found
}

// NewProposer returns a proposer for a register. Its id, 1 to MaxNumber, is one that no other
// proposer of the register ever has.
func NewProposer(id int64, places int) *Proposer { return &Proposer{id: id, places: places} }

// Outlast has the next rounds follow one, up to MaxNumber. A proposer that begins at the time of
// day outlasts what places hold of a register that most of them have forgotten since.
func (p *Proposer) Outlast(round int64) { p.round = max(p.round, min(round, MaxNumber-1)) }

// Begin returns the next round.
func (p *Proposer) Begin() *Round {
	p.round++
	return newRound(Ballot{Round: p.round, Proposer: p.id}, p.places, p.marks)
}

// End has the proposer learn from a round, and from what was promised elsewhere. Each round ends,
// whatever became of it, before the next begins.
func (p *Proposer) End(r *Round) {
	p.round = max(p.round, r.highest.Round)
	p.marks = nil
	for _, a := range r.promises {
		if a != nil && a.OK && !a.Votes {
			p.marks = append(p.marks, a.Mark)
		}
	}
}

// Kind is what a message asks for.
type Kind uint8

// The kinds of message. Only a read writes nothing.
const (
	Read    Kind = iota + 1
	Prepare      // promise the ballot
	Accept       // take the value, for a place that votes
	Restore      // take the value, for a place that is blank, and vote from then on
)

// Message is what a place is asked.
type Message struct {
	Place  int // whom it is for
	Kind   Kind
	Ballot Ballot
	Mark   string // of Accept and Restore: the life of the place that promised the ballot
	Value  string
	Known  time.Duration // of Accept and Restore: for how long the register is known to have had a value
}

// Answer is what a place says to a message: how it stands after it.
type Answer struct {
	OK       bool // what was asked was done
	Votes    bool
	Mark     string // empty: the place was not asked for a promise in this life
	Promised Ballot
	Accepted Ballot
	Value    string
	Age      time.Duration // how long it has held the value, by its own clock
	Known    time.Duration // for how long the register has had a value, likewise
}

// Found is what a round goes on from, or a read found.
type Found struct {
	Exists bool // false: nothing was ever chosen
	Value  string
	// For so long at least a majority has held the value when the answers were given. So the clock
	// of one place, or that it was restored since, makes no difference where enough others answer.
	Held time.Duration
	// For so long at least the register has had a value, as a place tells.
	Known time.Duration
}

// Change returns the value that is to follow what was found, or that itself to confirm it. It may
// be called for a value that is not chosen in the end.
type Change func(Found) (string, error)

// Round is one try to change a value. Its messages may be lost, late or doubled. What it is told of
// answers may come in any order.
type Round struct {
	ballot   Ballot
	quorum   int
	known    []string  // blank places that were seen before the round began
	promises []*Answer // by place; they never change
	taken    uint64    // the places that have accepted, a bit each
	closed   bool      // a value was proposed, or never will be
	revived  bool      // too few places vote: blank ones accept as well
	refused  bool
	value    string
	highest  Ballot
}

func newRound(b Ballot, places int, known []string) *Round {
	return &Round{ballot: b, quorum: Majority(places), known: slices.Clone(known), promises: make([]*Answer, places)}
}

// Prepares returns the messages with which the round begins.
func (r *Round) Prepares() (out []Message) {
	for i := range r.promises {
		out = append(out, Message{Place: i, Kind: Prepare, Ballot: r.ballot})
	}
	return out
}

// Promise tells what a place answered to that. An answer that comes after the choice is ignored:
// the choice did not heed it, so the place must not accept.
func (r *Round) Promise(place int, a Answer) {
	if r.closed || r.promises[place] != nil {
		return
	}
	r.promises[place] = &a
	r.learn(a)
}

func (r *Round) learn(a Answer) {
	if r.highest.Below(a.Promised) {
		r.highest = a.Promised
	}
}

// Heard reports whether all places have answered.
func (r *Round) Heard() bool { return !slices.Contains(r.promises, nil) }

// Choose makes the choice from the answers so far, and returns whom to ask to accept it. It can be
// called once.
func (r *Round) Choose(change Change) ([]Message, error) {
	if r.closed {
		return nil, ErrOvertaken
	}
	r.closed = true
	if r.voters() < r.quorum {
		if err := r.revive(); err != nil {
			return nil, err
		}
		r.revived = true
	}
	found, _ := r.found()
	value, err := change(found)
	if err != nil {
		return nil, err
	}
	r.value = value
	return r.messages(func(a *Answer) bool { return a.Votes || r.revived }), nil
}

// revive returns why the round may not go on although too few places vote, nil if it may. A voter
// has answered for good only if it was asked after the blank places had lost their votes: else its
// acceptance may still come to one that a blank place gave and forgot.
func (r *Round) revive() error {
	switch {
	case r.count(func(a *Answer) bool { return !a.OK }) > 0:
		return ErrOvertaken
	case !r.Heard():
		return ErrNoMajority
	case r.count(func(a *Answer) bool { return !a.Votes && !slices.Contains(r.known, a.Mark) }) > 0:
		return ErrBlank
	}
	return nil
}

func (r *Round) voters() int { return r.count(func(a *Answer) bool { return a.OK && a.Votes }) }

func (r *Round) count(is func(*Answer) bool) (n int) {
	for _, a := range r.promises {
		if a != nil && is(a) {
			n++
		}
	}
	return n
}

// found is the value of the highest ballot, and that ballot: of those who vote, or of all if too
// few do.
func (r *Round) found() (Found, Ballot) {
	var best *Answer
	for _, a := range r.promises {
		if a != nil && a.OK && (a.Votes || r.revived) && a.Accepted != (Ballot{}) &&
			(best == nil || best.Accepted.Below(a.Accepted)) {
			best = a
		}
	}
	if best == nil {
		return Found{Known: longest(r.promises)}, Ballot{}
	}
	held, _ := heldBy(r.quorum, r.promises, best.Accepted)
	return Found{Exists: true, Value: best.Value, Held: held, Known: longest(r.promises)}, best.Accepted
}

// longest is for how long at least a register has had a value, as one of its places tells.
func longest(answers []*Answer) (known time.Duration) {
	for _, a := range answers {
		if a != nil {
			known = max(known, a.Known)
		}
	}
	return known
}

// messages are for those places whose promise the choice has heeded.
func (r *Round) messages(to func(*Answer) bool) (out []Message) {
	for i, a := range r.promises {
		if a == nil || !a.OK || !to(a) {
			continue
		}
		m := Message{Place: i, Kind: Accept, Ballot: r.ballot, Mark: a.Mark, Value: r.value,
			Known: longest(r.promises)}
		if !a.Votes {
			m.Kind = Restore
		}
		out = append(out, m)
	}
	return out
}

// Accepted tells what a place answered to a message of Choose.
func (r *Round) Accepted(place int, a Answer) {
	if r.learn(a); a.OK {
		r.taken |= 1 << place
	} else {
		r.refused = true
	}
}

// chosen reports whether a majority has accepted the value.
func (r *Round) chosen() bool { return bits.OnesCount64(r.taken) >= r.quorum }

// Err returns why the value is not known to be chosen, nil if it is.
func (r *Round) Err() error {
	switch {
	case r.chosen():
		return nil
	case r.refused:
		return ErrOvertaken
	}
	return ErrNoMajority
}

// Restores returns the messages by which blank places vote again, once the value is chosen. Before,
// it may be older than one that a blank place helped to choose.
func (r *Round) Restores() []Message {
	if !r.chosen() || r.revived {
		return nil
	}
	return r.messages(func(a *Answer) bool { return !a.Votes })
}

// MaxNumber is the greatest number of a ballot or generation: Lua counts exactly up to there.
const MaxNumber = 1<<53 - 1

// Ballot numbers a round. No two rounds of a register have the same one: a proposer has an id of
// its own and never uses a round twice. The zero Ballot is below all others.
type Ballot struct {
	Round    int64 // 1 to MaxNumber
	Proposer int64 // 1 to MaxNumber
}

// Below reports whether b comes before another ballot.
func (b Ballot) Below(other Ballot) bool {
	return cmp.Or(cmp.Compare(b.Round, other.Round), cmp.Compare(b.Proposer, other.Proposer)) < 0
}

package majority

import (
	"fmt"
	"time"
)

// Place is what one place of a register holds. The zero Place is an empty one.
type Place struct {
	Run      string // the run of the server under which Mark was given
	Mark     string // names one life of the place, from when it was found blank until it forgets
	Votes    bool   // it took a value in this life
	Promised Ballot
	Accepted Ballot
	Value    string
	At       int64 // since when it holds the value, in microseconds of its own clock
}

// Server is what a place is told of its server with each message.
type Server struct {
	Run string // another one after each start
	Now int64  // its clock in microseconds
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
	Kind   Kind
	Ballot Ballot
	Mark   string // of Accept and Restore: the life of the place that promised the ballot
	Value  string
}

// Answer is what a place says to a message: how it stands after it.
type Answer struct {
	OK       bool // what was asked was done
	Votes    bool
	Mark     string // empty: the place is blank, and was not asked for a promise in this life
	Promised Ballot
	Accepted Ballot
	Value    string
	Age      time.Duration // how long it has held the value, by its own clock
}

// Hear returns what becomes of a place by a message, and its answer.
func (p Place) Hear(m Message, s Server) (Place, Answer) {
	if p.Run != s.Run { // what it promised or accepted since then is unknown
		p.Votes, p.Mark = false, ""
	}
	ok := false
	switch m.Kind {
	case Read:
		ok = true
	case Prepare:
		if ok = p.Promised.Below(m.Ballot); ok {
			p = p.promise(m.Ballot, s)
		}
	case Accept:
		if ok = p.promised(m) && p.Votes; ok {
			p = p.take(m, s.Now)
		}
	case Restore:
		if ok = p.promised(m); ok {
			p = p.take(m, s.Now)
			p.Votes = true
		}
	}
	return p, Answer{OK: ok, Votes: p.Votes, Mark: p.Mark, Promised: p.Promised, Accepted: p.Accepted,
		Value: p.Value, Age: max(time.Duration(s.Now-p.At)*time.Microsecond, 0)}
}

// promise has the place refuse all lower ballots. A blank place gets its mark by that: the run, the
// time and the ballot, of which one at least is new after each loss.
func (p Place) promise(b Ballot, s Server) Place {
	p.Promised = b
	if p.Mark == "" {
		p.Run = s.Run
		p.Mark = fmt.Sprintf("%s/%d/%016d%016d", s.Run, s.Now, b.Round, b.Proposer)
	}
	return p
}

// promised reports whether the place, in the life that the message is for, has promised its ballot
// and no other since.
func (p Place) promised(m Message) bool {
	return m.Mark != "" && p.Mark == m.Mark && p.Promised == m.Ballot
}

// take accepts a value. One that the place holds already keeps its age.
func (p Place) take(m Message, now int64) Place {
	if !p.Votes || p.Value != m.Value {
		p.At = now
	}
	p.Accepted, p.Value = m.Ballot, m.Value
	return p
}

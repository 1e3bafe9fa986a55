package majority

import (
	"cmp"
	"fmt"
	"time"
)

// This file is the twin of the script that keeps a place.

// Place is what one place of a register holds. The zero Place is an empty one.
type Place struct {
	Run      string // the run of the server under which Mark was given
	Mark     string // names one life of the place, from when it was found blank until it forgets
	Votes    bool   // it took a value in this life
	Promised Ballot
	Accepted Ballot
	Value    string
	At       int64 // since when it holds the value, in microseconds of its own clock; 0: it has none
	Born     int64 // since when the register has a value, likewise; 0: none was seen
}

// Server is what a place is told of its server with each message.
type Server struct {
	Run   string // another one after each start, and after each time as a replica
	Whole bool   // it forgot no value of the register: a place that holds none has accepted none
	Now   int64  // its clock in microseconds
	Moved bool   // it takes nothing any more
}

// Hear returns what becomes of a place by a message, and its answer.
func (p Place) Hear(m Message, s Server) (Place, Answer) {
	was, ok := p, false
	if p.Run != s.Run { // what it promised or accepted since then is unknown
		p.Votes, p.Mark = false, ""
	}
	if p.Accepted == (Ballot{}) && s.Whole {
		p.Votes = true
	}
	switch m.Kind {
	case Read:
		ok = true
	case Prepare:
		if ok = p.Promised.Below(m.Ballot) && !s.Moved; ok {
			p = p.promise(m.Ballot, s)
		}
	case Accept:
		if ok = p.promised(m) && p.Votes && !s.Moved; ok {
			p = p.take(m, s.Now)
		}
	case Restore:
		if ok = p.promised(m) && !s.Moved; ok {
			p = p.take(m, s.Now)
			p.Votes = true
		}
	}
	a := Answer{OK: ok, Votes: p.Votes, Mark: p.Mark, Promised: p.Promised, Accepted: p.Accepted,
		Value: p.Value, Age: since(p.At, s.Now), Known: since(p.Born, s.Now)}
	if m.Kind == Read || !ok {
		p = was
	}
	return p, a
}

// since is how long ago a time was, 0 if there was none.
func since(at, now int64) time.Duration {
	if at == 0 {
		return 0
	}
	return max(time.Duration(now-at)*time.Microsecond, 0)
}

// promise has the place refuse all lower ballots. A place gets its mark by the first one of its
// life: the run, the time and the ballot, of which one at least is new after each loss.
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
	if !p.Votes || p.Accepted == (Ballot{}) || p.Value != m.Value {
		p.At = now
	}
	p.Born = max(min(cmp.Or(p.Born, now), now-m.Known.Microseconds()), 1)
	p.Accepted, p.Value = m.Ballot, m.Value
	return p
}

// Stored is the stored form of a place: columns of fixed width, which a script can read, and then
// its three strings:
//
//	offset  0  2   magic "M2"
//	        2  1   votes, 0 or 1
//	        3  4×16  promised and accepted: round, proposer, decimal
//	       67  16  since when it holds the value, microseconds, decimal
//	       83  16  since when the register has a value, likewise
//	       99  3   length of run     102  3  length of mark
//	      105      run, mark, value
func (p Place) Stored() string {
	votes := 0
	if p.Votes {
		votes = 1
	}
	return fmt.Sprintf("M2%d%016d%016d%016d%016d%016d%016d%03d%03d%s%s%s", votes, p.Promised.Round,
		p.Promised.Proposer, p.Accepted.Round, p.Accepted.Proposer, p.At, p.Born, len(p.Run), len(p.Mark), p.Run,
		p.Mark, p.Value)
}

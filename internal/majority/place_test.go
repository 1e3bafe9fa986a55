package majority

import (
	"fmt"
	"strconv"
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
	At       int64 // since when it holds the value, in microseconds of its own clock
}

// Server is what a place is told of its server with each message.
type Server struct {
	Run string // another one after each start, and after each time as a replica
	Now int64  // its clock in microseconds
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

// A stored place is columns of fixed width, which a script can read, and then its three strings:
//
//	offset  0  2   magic "M1"
//	        2  1   votes, 0 or 1
//	        3  4×16  promised and accepted: round, proposer, decimal
//	       67  16  since when it holds the value, microseconds, decimal
//	       83  3   length of run      86  3  length of mark
//	       89      run, mark, value
const (
	placeMagic = "M1"
	placeHead  = 89
)

// stored is the stored form of a place.
func (p Place) stored() string {
	votes := 0
	if p.Votes {
		votes = 1
	}
	return fmt.Sprintf("%s%d%016d%016d%016d%016d%016d%03d%03d%s%s%s", placeMagic, votes, p.Promised.Round,
		p.Promised.Proposer, p.Accepted.Round, p.Accepted.Proposer, p.At, len(p.Run), len(p.Mark), p.Run, p.Mark,
		p.Value)
}

// placeOf is the place of a stored form.
func placeOf(s string) (Place, error) {
	if len(s) < placeHead || s[:2] != placeMagic || s[2] != '0' && s[2] != '1' {
		return Place{}, fmt.Errorf("place: %w: no head", ErrStored)
	}
	var n [7]int64
	for i, from := range []int{3, 19, 35, 51, 67, 83, 86} {
		width := 16
		if from >= 83 {
			width = 3
		}
		column, err := strconv.ParseUint(s[from:from+width], 10, 63)
		if err != nil {
			return Place{}, fmt.Errorf("place: %w: %w", ErrStored, err)
		}
		n[i] = int64(column)
	}
	rest := s[placeHead:]
	if int64(len(rest)) < n[5]+n[6] {
		return Place{}, fmt.Errorf("place: %w: cut off", ErrStored)
	}
	p := Place{Votes: s[2] == '1', Promised: Ballot{n[0], n[1]}, Accepted: Ballot{n[2], n[3]}, At: n[4],
		Run: rest[:n[5]], Mark: rest[n[5] : n[5]+n[6]], Value: rest[n[5]+n[6]:]}
	return p, nil
}

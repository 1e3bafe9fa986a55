package majority

import (
	"slices"
	"time"
)

// Verdict is what the answers to a read come to.
type Verdict uint8

// The verdicts on a read.
const (
	Unknown   Verdict = iota // too few places answered
	Unsettled                // a round has to finish what another began, or to restore blank places
	Confirmed                // a majority holds the value, or there is none
)

// Reading is a value that a majority holds.
type Reading struct {
	Found
	// A place is blank, or has an older value. A round restores it; that is not urgent, but one
	// more loss may be too many.
	Blank bool
}

// Confirm tells what answers to a read, by place, come to; nil is no answer. A confirmed value is
// never older than the one that was chosen last when the read began. It may be used as known since
// then, not since the answers came. An unsettled one is what a round would go on from, if no other
// place knows a later one.
//
// A promise above the value that is confirmed may belong to a round that was accepted elsewhere. A
// round finishes it, so that it is not left open until its place is the only one to ask.
func Confirm(answers []*Answer) (Reading, Verdict) { return confirm(answers, Majority(len(answers))) }

func confirm(answers []*Answer, quorum int) (got Reading, v Verdict) {
	r := Round{quorum: quorum, promises: answers}
	heard, voters := r.count(func(*Answer) bool { return true }), r.voters()
	if heard < quorum {
		got.Known = longest(answers)
		return got, Unknown
	}
	r.revived = voters < quorum
	found, best := r.found()
	_, all := heldBy(quorum, answers, best)
	open := r.count(func(a *Answer) bool { return a.Votes && best.Below(a.Promised) }) > 0
	if got.Found = found; open || !all {
		return got, Unsettled
	}
	// One that missed the value is as good as one that forgot it.
	got.Blank = voters < heard || r.count(func(a *Answer) bool { return a.Accepted != best }) > 0
	return got, Confirmed
}

// Final returns the value of a register at places that have moved: they take nothing any more. The
// answers are those of such places alone. It is ErrNoMajority if too few of them have answered.
func Final(answers []*Answer) (Found, error) {
	r := Round{quorum: Majority(len(answers)), promises: answers}
	if r.revived = r.voters() < r.quorum; r.revived && !r.Heard() {
		return Found{}, ErrNoMajority
	}
	found, _ := r.found()
	return found, nil
}

// heldBy is for how long at least so many places have held what they accepted with a ballot; ok is
// false if fewer have.
func heldBy(quorum int, answers []*Answer, ballot Ballot) (held time.Duration, ok bool) {
	var ages []time.Duration
	for _, a := range answers {
		if a != nil && a.Votes && a.Accepted == ballot {
			ages = append(ages, a.Age)
		}
	}
	if len(ages) < quorum {
		return 0, false
	}
	slices.Sort(ages)
	return ages[len(ages)-quorum], true
}

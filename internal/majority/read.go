package majority

import "time"

// Verdict is what the answers to a read come to.
type Verdict uint8

// The verdicts on a read.
const (
	Unknown   Verdict = iota // too few places answered
	Unsettled                // a round has to finish what another began, or to restore blank places
	Confirmed                // a majority holds the value
)

// Reading is a value that a majority holds.
type Reading struct {
	Value  string
	Ballot Ballot
	// For so long at least a majority has held the value when the answers were given: the least of
	// the ages that those who hold it tell. So a place that was restored since makes it shorter.
	Held time.Duration
	// A place is blank. A round restores it; that is not urgent, but the loss of another is near.
	Blank bool
}

// Confirm tells what answers to a read, by place, come to; nil is no answer. A confirmed value is
// never older than the one that was chosen last when the read began. It may be used as known since
// then, not since the answers came.
//
// A promise above the value that is shown may belong to a round that was accepted elsewhere. A
// round finishes it, so that it is not left open until its place is the only one to ask.
func Confirm(answers []*Answer) (Reading, Verdict) { return confirm(answers, Majority(len(answers))) }

func confirm(answers []*Answer, quorum int) (got Reading, v Verdict) {
	heard, alike := 0, 0
	open, blank := false, false
	var best *Answer
	for _, a := range answers {
		if a == nil {
			continue
		}
		heard++
		blank = blank || !a.Votes
		open = open || a.Votes && a.Accepted.Below(a.Promised)
		if a.Votes && (best == nil || best.Accepted.Below(a.Accepted)) {
			best = a
		}
	}
	if heard < quorum {
		return got, Unknown
	}
	if best == nil {
		return got, Unsettled
	}
	held := best.Age
	for _, a := range answers {
		if a != nil && a.Votes && a.Accepted == best.Accepted {
			alike++
			held = min(held, a.Age)
		}
	}
	if open || alike < quorum {
		return got, Unsettled
	}
	return Reading{Value: best.Value, Ballot: best.Accepted, Held: held, Blank: blank}, Confirmed
}

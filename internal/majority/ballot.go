package majority

import "cmp"

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

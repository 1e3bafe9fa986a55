package majority

import "time"

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

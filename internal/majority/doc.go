// Package majority keeps a small value at several places so that a majority of them decides. It
// sends nothing and reads no clock: messages and times come from its caller.
//
// A value is changed by compare-and-set rounds (CASPaxos, Rystsov 2018). A round asks all places to
// promise its ballot, takes the value of the highest ballot that a majority shows, changes it, and
// has a majority accept the result. Then the value is chosen. Of two chosen values one was derived
// from the other.
//
// A server can forget. So a place votes only while it knows all that it ever promised: its state
// was written under the run that its server is in now. Else it is blank. The first prepare gives a
// blank place a mark, which no other life of the place has. Promises, and what follows from them,
// are good for that mark alone: a late message for an earlier life is refused.
//
// A blank place votes again when it took a restore: what a majority of voters accepted in a round
// that had its mark before it chose. Such a majority shares a place with each that counted the
// forgotten vote. So either the round saw that value, or that vote came after all of this.
//
// Where too few vote, as in a new register or after a restart of all, the highest accepted value at
// all places goes on. All of them must answer, and the blank ones must have had their marks before
// the round began. That is safe as long as each chosen value is still held by one place that
// accepted it. If all of those forgot it, an older value goes on. The package cannot tell that; a
// process that knows a later value can: see Outlast.
//
// Membership is the value for the nodes of a key prefix; GivenUp tells when a node that was put out
// can have nothing in use any more.
package majority

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
// place a mark, which no other life of the place has. Promises, and what follows from them, are
// good for that mark alone: a late message for an earlier life is refused.
//
// A place that holds no value has accepted none, if its server is whole. Then it votes with
// nothing, be it absent or asked for promises before. If it forgot a promise, what follows from
// that is for another mark. So a new register begins at a majority, and a majority says that there
// is none. Whole is a server whose pointer, a small key, is of its present run. A pointer may be
// written anew, in another run or after a loss, only when every register in use votes at that place
// again. In use is a register from when one place accepted its first value, which need not be
// chosen yet. A place that is the only one of its register votes when it holds no value: nobody
// else can know more. None of this holds where a server drops single keys, for want of memory or as
// they end at one place before others.
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
// A register moves by Final: places that take nothing any more say what they hold. Whoever asks has
// first made sure that most of them have moved.
//
// Membership is the value for the nodes of a key prefix; GivenUp tells when a node that was put out
// can have nothing in use any more.
package majority

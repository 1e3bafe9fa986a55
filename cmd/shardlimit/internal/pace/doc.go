// Package pace releases the lines of a stream as fast as a shared limit allows.
//
// One goroutine reads ahead into a bounded backlog, another asks a Gate for as
// many permits as there are lines (at most a small part of the limit, so that
// no process takes a whole window for itself) and writes exactly the lines it
// got permits for, at once.
//
// Nothing is lost: at every end, also an interrupt, what was written, then
// Outcome.Rest, then what has not been read from the input, are the input, in
// this order and without a gap or a repetition. The one exception is a write
// that fails in the middle of a line: that line is repeated whole in the rest.
package pace

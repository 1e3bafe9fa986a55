// Package stdio makes standard input and output interruptible, so that a
// program that is told to stop knows exactly which bytes it took and which it
// gave.
//
// A read that is abandoned in a goroutine may still take bytes from a pipe
// after the program has settled its accounts, and they are lost. Here a read
// is only begun when it will not block, so after its context is done nothing
// more is taken. The same goes for writes.
package stdio

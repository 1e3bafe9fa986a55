// Package serve answers over HTTP whether a call may pass, for programs that are
// not written in Go.
package serve

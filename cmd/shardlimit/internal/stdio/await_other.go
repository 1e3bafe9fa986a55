//go:build !unix

package stdio

import (
	"context"
	"io"
	"os"
)

const (
	readable = iota
	writable
)

var errNoReader = io.ErrClosedPipe

// await does not wait: this system cannot tell whether a call would block, so an interrupt is heard
// once the call under way has ended.
func await(ctx context.Context, _ *os.File, _ int16) (failed bool, err error) {
	return false, ctx.Err()
}

//go:build !unix

package stdio

import (
	"context"
	"io"
	"os"
)

const writable = iota

var errNoReader = io.ErrClosedPipe

// await does not wait: this system cannot tell whether a call would block, so a write hears an
// interrupt once the call under way has ended.
func await(ctx context.Context, _ *os.File, _ int16) (failed bool, err error) {
	return false, ctx.Err()
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) { return abandonable(in.ctx, in.file, p) }

//go:build unix

package stdio

import (
	"context"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const (
	readable = unix.POLLIN
	writable = unix.POLLOUT

	// look is how often the context is looked at, in milliseconds.
	look = 100
)

var errNoReader = os.NewSyscallError("write", unix.EPIPE)

// await waits until a file is ready for events, or has failed, or ctx is done. Other events of poll
// are left to the call on the file, whose error says more.
func await(ctx context.Context, f *os.File, events int16) (failed bool, err error) {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: events}}
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := unix.Poll(fds, look)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, os.NewSyscallError("poll", err)
		}
		if n > 0 {
			return fds[0].Revents&unix.POLLERR != 0, nil
		}
	}
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if _, err := await(in.ctx, in.file, readable); err != nil {
		return 0, err
	}
	return in.file.Read(p)
}

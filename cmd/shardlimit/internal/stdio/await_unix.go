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

// await waits until a file is ready for events, or has failed, or ctx is done. It reports no
// failure of the file: the next call on it does, and says more.
func await(ctx context.Context, f *os.File, events int16) error {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: events}}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.Poll(fds, look)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if n > 0 {
			return nil
		}
	}
}

//go:build unix

package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// bell turns the end of a context into something that poll can wait for: the
// read end of a pipe whose write end is closed when the context is done. It
// lives as long as the program.
type bell struct {
	ctx  context.Context
	read *os.File
	fd   int32
}

func newBell(ctx context.Context) (*bell, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = w.Close() })
	return &bell{ctx: ctx, read: r, fd: int32(r.Fd())}, nil
}

// await waits until fd is ready for events, or has failed, or ctx is done. It
// returns what poll reported for fd, or the context's error.
func (b *bell) await(fd int, events int16) (int16, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: b.fd, Events: unix.POLLIN}}
	for {
		if err := b.ctx.Err(); err != nil {
			return 0, err
		}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, os.NewSyscallError("poll", err)
		case fds[0].Revents != 0:
			return fds[0].Revents, nil
		}
		// Only the bell rang: its context is done.
	}
}

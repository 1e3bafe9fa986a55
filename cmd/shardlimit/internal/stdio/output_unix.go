//go:build unix

package stdio

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// Output writes lines to a file. See NewOutput.
type Output struct {
	file    *os.File
	fd      int
	whole   bool // a regular file, for which writing never waits for anybody
	patient *bell
	stop    *bell
}

// NewOutput returns an output to f whose Write gives up when ctx is done, and
// whose Ready gives up when ready is done. f must be in blocking mode, as
// standard output is. To a regular file, one Write is one system call. To a
// pipe, a terminal or a socket, as many lines as fit into pipeBuffer bytes are
// one system call, which the system keeps in one piece: lines that several
// processes write to the same pipe do not mix unless they are longer than
// that. One goroutine may use it.
func NewOutput(ctx, ready context.Context, f *os.File) (*Output, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	stop, err := newBell(ctx)
	if err != nil {
		return nil, err
	}
	patient, err := newBell(ready)
	if err != nil {
		return nil, err
	}
	return &Output{file: f, fd: int(f.Fd()), whole: info.Mode().IsRegular(), patient: patient, stop: stop}, nil
}

// Ready waits until a write would not block. ctx must be the context that
// NewOutput got as ready. The error says that it is done, or that nobody reads
// any more.
func (o *Output) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil || o.whole {
		return err
	}
	events, err := o.patient.await(o.fd, unix.POLLOUT)
	if err == nil && events&unix.POLLERR != 0 {
		err = os.NewSyscallError("write", unix.EPIPE)
	}
	return err
}

// Write writes p. It returns how much of p was written, which is all of it if
// the error is nil.
func (o *Output) Write(p []byte) (int, error) {
	if o.whole {
		return o.file.Write(p)
	}
	written := 0
	for written < len(p) {
		if _, err := o.stop.await(o.fd, unix.POLLOUT); err != nil {
			return written, err
		}
		n, err := o.file.Write(piece(p[written:]))
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

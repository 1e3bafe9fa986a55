//go:build unix

package stdio

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

type input struct {
	file *os.File
	fd   int
	bell *bell
}

// Input returns a reader of f whose Read returns the error of ctx, and takes
// nothing from f, once ctx is done. f must be in blocking mode, as standard
// input is, and should have no other reader while it is a pipe: one that takes
// the bytes first leaves Read blocked until more come. One goroutine may read.
func Input(ctx context.Context, f *os.File) (io.Reader, error) {
	b, err := newBell(ctx)
	if err != nil {
		return nil, err
	}
	return &input{file: f, fd: int(f.Fd()), bell: b}, nil
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	// Whatever poll says apart from the context (data, end, failure, or that it
	// cannot poll such a file), the read itself says more clearly.
	if _, err := in.bell.await(in.fd, unix.POLLIN); err != nil {
		return 0, err
	}
	return in.file.Read(p)
}

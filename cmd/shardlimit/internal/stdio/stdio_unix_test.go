//go:build unix

package stdio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return r, w
}

func TestInputStopsAndTakesNothingMore(t *testing.T) {
	r, w := pipe(t)
	ctx, stop := context.WithCancel(t.Context())
	in := Input(ctx, r)
	done := make(chan error)
	go func() {
		_, err := in.Read(make([]byte, 10)) // blocks: the pipe is empty
		done <- err
	}()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("the blocked Read returned %v", err)
	}
	_, _ = io.WriteString(w, "after")
	if n, err := in.Read(make([]byte, 10)); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("a Read after the end took %d bytes, %v", n, err)
	}
	_ = w.Close()
	if left, _ := io.ReadAll(r); string(left) != "after" {
		t.Errorf("the pipe still holds %q, want all that came after the end", left)
	}
}

// A pipe passes on all that is written to it, also more than it holds.
func TestOutputToAPipe(t *testing.T) {
	r, w := pipe(t)
	out := Output(t.Context(), w)
	text := []byte(strings.Repeat("some text\n", 100_000) + strings.Repeat("x", 3*pipeBuffer))
	got := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(Input(t.Context(), r))
		got <- all
	}()
	if n, err := out.Write(text); n != len(text) || err != nil {
		t.Errorf("wrote %d of %d, %v", n, len(text), err)
	}
	_ = w.Close()
	if !bytes.Equal(<-got, text) {
		t.Error("what was read is not what was written")
	}
}

func TestOutputThatNobodyReads(t *testing.T) {
	r, w := pipe(t)
	ctx, stop := context.WithCancel(t.Context())
	out := Output(ctx, w)
	n, err, done := 0, error(nil), make(chan struct{})
	go func() {
		defer close(done)
		n, err = out.Write(bytes.Repeat([]byte("0123456\n"), 1<<18)) // 2 MiB
	}()
	_, _ = r.Read(make([]byte, 1)) // the write is under way
	stop()
	<-done
	if !errors.Is(err, context.Canceled) || n == 0 {
		t.Fatalf("the blocked Write returned %d, %v", n, err)
	}
	_ = w.Close()
	if left, _ := io.ReadAll(r); len(left)+1 != n {
		t.Errorf("Write says %d bytes, the pipe had %d", n, len(left)+1)
	}
}

func TestOutputWithoutAReader(t *testing.T) {
	r, w := pipe(t)
	out := Output(t.Context(), w)
	_ = r.Close()
	if n, err := out.Write([]byte("x\n")); n != 0 || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write: %d, %v", n, err)
	}
}

func TestPiece(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		in   string
		want int
	}{
		{"a\nb", 3},
		{x(pipeBuffer), pipeBuffer},
		{x(pipeBuffer-1) + "\nb\n", pipeBuffer},
		{x(pipeBuffer) + "\n", pipeBuffer},
		{"a\n" + x(pipeBuffer-2) + "\n", 2},
		{"a\nb\n" + x(2*pipeBuffer), 4},
		{x(2 * pipeBuffer), pipeBuffer},
	} {
		if got := piece([]byte(c.in)); len(got) != c.want {
			t.Errorf("piece of %d bytes is %d, want %d", len(c.in), len(got), c.want)
		}
	}
}

//go:build !unix

package stdio

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAnIdleReadHearsTheInterrupt(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close(); _ = r.Close() })
	ctx, stop := context.WithCancel(t.Context())
	in := Input(ctx, r)
	done := make(chan error)
	go func() {
		_, err := in.Read(make([]byte, 10)) // blocks: the pipe is empty
		done <- err
	}()
	time.Sleep(50 * time.Millisecond) // so that the read is under way
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the blocked Read returned %v", err)
	}
}

func TestAbandonableReadsReadToTheEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	text := strings.Repeat("some text\n", 100_000) // more than a pipe holds
	go func() {
		_, _ = io.WriteString(w, text)
		_ = w.Close()
	}()
	got, err := io.ReadAll(Input(t.Context(), r))
	if err != nil || string(got) != text {
		t.Errorf("read %d bytes of %d, %v", len(got), len(text), err)
	}
}

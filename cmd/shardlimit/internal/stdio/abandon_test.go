package stdio

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

func TestAnIdleReadIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		began, p := time.Now(), make([]byte, 10)
		n, err := abandonable(ctx, r, p)
		if took := time.Since(began); n != 0 || !errors.Is(err, context.Canceled) || took != time.Minute+grace {
			t.Errorf("%d bytes after %s, %v", n, took, err)
		}
		_, _ = io.WriteString(w, "late")
		if string(p) != strings.Repeat("\x00", 10) {
			t.Errorf("the abandoned read wrote %q", p)
		}
		if n, err := abandonable(ctx, strings.NewReader("x"), p); n != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("a read after the end took %d bytes, %v", n, err)
		}
	})
}

func TestAReadThatEndsSoonIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		time.AfterFunc(time.Minute+grace/2, func() { _, _ = io.WriteString(w, "soon") })
		p := make([]byte, 10)
		if n, err := abandonable(ctx, r, p); string(p[:n]) != "soon" || err != nil {
			t.Errorf("%q, %v", p[:n], err)
		}
	})
}

// reads are those of an input that cannot tell whether they block.
type reads struct {
	ctx context.Context
	r   io.Reader
}

func (r reads) Read(p []byte) (int, error) { return abandonable(r.ctx, r.r, p) }

func TestAbandonableReadsReadToTheEnd(t *testing.T) {
	text := strings.Repeat("some text\n", 20_000) // more than one read takes
	if err := iotest.TestReader(reads{t.Context(), strings.NewReader(text)}, []byte(text)); err != nil {
		t.Error(err)
	}
}

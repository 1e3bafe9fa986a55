package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// final marks an error that trying again cannot cure.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// within does something in good time. That it fails is an error of the test.
func within(tb testing.TB, most time.Duration, what string, do func(ctx context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := do(ctx); err != nil {
		tb.Errorf("redistest: %s: %v", what, err)
	}
}

// poll calls try until it returns nil or a final error, or ctx ends. The pause
// between two tries only spares the processor: nothing is right because of it. A server starts in
// a moment, and a cluster agrees after seconds.
func poll(ctx context.Context, try func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := try()
		var end final
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: gave up: %w (last: %w)", ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}

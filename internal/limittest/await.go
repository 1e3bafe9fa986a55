package limittest

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come by itself, before it fails.
const Patience = 2 * time.Minute

// AwaitWithin polls for at most so long; seen, if given, tells what was there instead. Between two
// looks it rests for a sixteenth of what it has waited, which spares the processor.
func AwaitWithin(tb testing.TB, most time.Duration, what string, holds func() bool, seen ...func() string) {
	tb.Helper()
	for begun := time.Now(); !holds(); {
		waited := time.Since(begun)
		if waited > most {
			for _, tell := range seen {
				what += ": " + tell()
			}
			tb.Fatalf("after %s still not: %s", most, what)
		}
		time.Sleep(min(max(waited/16, time.Millisecond), 100*time.Millisecond))
	}
}

// AwaitThat polls until the condition holds.
func AwaitThat(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	AwaitWithin(tb, Patience, what, holds)
}

// Pause waits as long as it was told to, and reports false if ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

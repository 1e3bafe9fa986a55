package limittest

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come by itself, before it fails.
const Patience = 2 * time.Minute

// AwaitWithin polls for at most so long; seen, if given, tells what was there instead.
func AwaitWithin(tb testing.TB, most time.Duration, what string, holds func() bool, seen ...func() string) {
	tb.Helper()
	for end := time.Now().Add(most); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			for _, tell := range seen {
				what += ": " + tell()
			}
			tb.Fatalf("after %s still not: %s", most, what)
		}
	}
}

// AwaitThat polls until the condition holds; the pause only spares the processor.
func AwaitThat(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("after %s still not: %s", Patience, what)
		}
	}
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

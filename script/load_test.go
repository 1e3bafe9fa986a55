package script

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// TestWhatCountsAsLoaded: a script is loaded once the server has run it, whatever it found, and not
// if its caller gave up or the server refused.
func TestWhatCountsAsLoaded(t *testing.T) {
	m := miniredis.RunT(t)
	endpoint, ref := NewEndpoint(miniClient(t, m)), ShardKeys("", "t", "limit")
	loaded := func(ctx context.Context) bool {
		number := ref.program(peekProgram)
		endpoint.loaded[number].Store(0)
		_, _ = endpoint.Peek(ctx, ref)
		return endpoint.loaded[number].Load() > 0
	}
	if !loaded(t.Context()) {
		t.Error("a load does not count")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if loaded(gone) {
		t.Error("one that gave up counts")
	}
	if err := m.Set(ref.head, "foreign"); err != nil {
		t.Fatal(err)
	}
	if !loaded(t.Context()) {
		t.Error("one whose script found foreign state does not count")
	}
	m.SetError("LOADING")
	if loaded(t.Context()) {
		t.Error("one that the server refused counts")
	}
}

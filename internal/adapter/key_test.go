package adapter_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// itself is a key that is its own part.
func itself(part string) string { return part }

// FuzzJoin: different parts make different keys.
func FuzzJoin(f *testing.F) {
	f.Add("ann", "bob")
	f.Add("", "b")
	f.Add("1:a", "b1:c")
	f.Fuzz(func(t *testing.T, a, b string) {
		join := func(parts ...string) string { return adapter.Join(parts, itself) }
		joined, c := join(a, b), a+b
		if (joined == "") != (a == "" || b == "") {
			t.Errorf("%q and %q make %q", a, b, joined)
		}
		if joined != "" && a != b && joined == join(b, a) {
			t.Errorf("%q and %q make one key in either order", a, b)
		}
		if joined != "" && len(b) > 1 && joined == join(c[:len(a)+1], c[len(a)+1:]) {
			t.Errorf("%q is parted at two places into one key", c)
		}
	})
}

// The first part that is not empty counts, with its place.
func TestFirstOf(t *testing.T) {
	for want, parts := range map[string][]string{"0:a": {"a", "b"}, "1:b": {"", "b"}, "": {"", ""}} {
		if got := adapter.FirstOf(parts, itself); got != want {
			t.Errorf("of %q: %q, want %q", parts, got, want)
		}
	}
}

// A key that is too long becomes a hash. Who sends that has another key.
func TestBounded(t *testing.T) {
	longest := strings.Repeat("a", shardlimit.MaxName)
	hash := adapter.Bounded(longest + "a")
	keys := []string{adapter.Bounded(longest), hash, adapter.Bounded(longest + "b"), adapter.Bounded(hash)}
	if keys[0] != longest || len(slices.Compact(slices.Sorted(slices.Values(keys)))) != len(keys) {
		t.Errorf("%q", keys)
	}
	for _, key := range keys {
		if len(key) > shardlimit.MaxName {
			t.Errorf("%q has %d bytes", key, len(key))
		}
	}
}

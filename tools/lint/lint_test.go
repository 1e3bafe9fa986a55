package main

import "testing"

func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		folder, imported string
		may              bool
	}{
		{"internal/chance", "math/rand/v2", true},
		{"internal/chance", module + "/shard", false},
		{"internal/call", module + "/internal/limit", true},
		{"internal/limit", module + "/internal/call", false},
		{"internal/dispatch", module + "/internal/register", false},
		{"internal/node", "go.opentelemetry.io/otel/metric", true},
		{"shard", "net/netip", false},
		{"shard", "net", false},
		{"script", "net", true},
		{"httplimit", module, true},
		{"httplimit", module + "/script", false},
		{"", "testing", false},
		{"internal/limittest", "testing", true},
		{"cmd/shardlimit", "github.com/alicebob/miniredis/v2", false},
		{"embedded", "github.com/alicebob/miniredis/v2", true},
		{"", module + "/internal/limittest", false},
		{"internal/unlisted", module + "/shard", false},
		{"cmd/shardlimit", "anything.example/else", true},
	} {
		if got := mayImport(c.folder, c.imported); got != c.may {
			t.Errorf("%q may import %s: %t, want %t", c.folder, c.imported, got, c.may)
		}
	}
}

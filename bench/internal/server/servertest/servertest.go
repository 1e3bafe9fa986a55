// Package servertest starts the servers of the benchmark's own tests.
package servertest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Require skips the test where there is no redis-server, or fails it if SHARDLIMIT_REQUIRE_REDIS
// is 1.
func Require(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("SHARDLIMIT_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// Start starts a server that lives as long as the test.
func Start(t *testing.T) *server.Server {
	t.Helper()
	Require(t)
	s, err := server.Start(t.Context(), "redis-server")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

package scenario

import (
	"os"
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/envoy"
	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/gateway"
)

// TestMain lets the scenarios that start further processes start this test again.
func TestMain(m *testing.M) {
	fleet.ServeIfWorker()
	gateway.ServeIfServer()
	envoy.ServeIfService()
	// The race detector waits a second when a process ends: much, for processes that live as long.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	m.Run()
}

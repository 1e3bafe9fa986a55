package scenario

import (
	"testing"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
)

// TestMain lets the scenarios that start further processes start this test again.
func TestMain(m *testing.M) {
	fleet.ServeIfWorker()
	m.Run()
}

package scenario

import (
	"math"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// TestCalibrated: what a call costs and the quota are those of the point that is played, how
// callers rejoin is that of the point with one node.
func TestCalibrated(t *testing.T) {
	point := func(nodes int, cpu float64, calls, decisions int64) scalePoint {
		p := scalePoint{report: fleet.Report{Elapsed: 2 * time.Second, Allowed: decisions}}
		for range nodes {
			p.nodes = append(p.nodes, server.Usage{CPU: cpu, Scripts: calls})
		}
		return p
	}
	one, here := point(1, 0.05, 5000, 30_000), point(4, 0.04, 2000, 100)
	c := calibrated(one, here, 0)
	if len(c.Nodes) != 4 || c.Server.Script != 20*time.Microsecond || c.Server.Quota != cappedQuota.Period/50 {
		t.Errorf("%d nodes, a call of %s, a quota of %s", len(c.Nodes), c.Server.Script, c.Server.Quota)
	}
	here.nodes[0].Scripts, here.nodes[1].Scripts = 1000, 3000
	if got := calibrated(one, here, 0).Server.Uneven; got[0] != 2 || math.Abs(got[1]-2./3) > 1e-9 || got[2] != 1 {
		t.Errorf("a call costs the nodes %v times as much", got)
	}
	if want := 2 - float64(scaleCallers)/6; math.Abs(c.Route.Rejoin-want) > 1e-9 {
		t.Errorf("%v of the callers rejoin, want %v", c.Route.Rejoin, want)
	}
}

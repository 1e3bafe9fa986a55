package telemetrytest

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/shardlimit/shardlimit"
)

// Of limits with takeover a gauge tells for each node whether it is lost.
func TestLostNodesAreTold(t *testing.T) {
	p := newProbe(t, 3, func(c *shardlimit.Config) { c.NodeTimeout = shardlimit.DefaultNodeTimeout })
	l := limiter(t, p.client, "l", shardlimit.PerHour(30))
	if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	lost, ok := p.metrics(t)["ratelimit.node.lost"].Data.(metricdata.Gauge[int64])
	if !ok || len(lost.DataPoints) != 3 {
		t.Fatalf("%+v", lost)
	}
	for _, point := range lost.DataPoints {
		if point.Value != 0 {
			t.Errorf("%v is lost", point.Attributes)
		}
	}
}

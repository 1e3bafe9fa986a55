package telemetrytest

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// participant is the name of the process under test; it must not come out anywhere.
const participant = "participant-that-must-not-be-told"

// probe is a client whose metrics and spans are read back.
type probe struct {
	client *shardlimit.Client
	other  *shardlimit.Client // of another process on the same nodes, whose telemetry goes nowhere
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
	posts  []*limittest.ProxiedNode
}

// newProbe starts n nodes n0, n1, ... behind proxies and a client of them.
func newProbe(tb testing.TB, n int, change ...func(*shardlimit.Config)) *probe {
	tb.Helper()
	p := &probe{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	p.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.spans))
	f, posts := limittest.Proxied(tb, n)
	p.posts = posts
	for i := range f.Nodes {
		f.Nodes[i].Redis = limittest.Unhurried(f.Nodes[i].Redis)
		// one connection, which is there: none has to be made while a test stalls the node
		f.Nodes[i].Redis.PipelineMultiplex = -1
	}
	told := func(c *shardlimit.Config) {
		c.Participant, c.CallTimeout, c.TracerProvider = participant, limittest.Patience, p.traces
		c.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader))
	}
	p.client = f.Client(tb, append([]func(*shardlimit.Config){told}, change...)...)
	p.other = f.Client(tb)
	return p
}

// stall holds back, or lets go, everything on the way to all nodes.
func (p *probe) stall(on bool) {
	for _, post := range p.posts {
		post.Proxy.Stall(on)
	}
}

// sent is how many script calls for shards were written.
func (p *probe) sent() (n int64) {
	for _, post := range p.posts {
		n += post.Takes.Load()
	}
	return n
}

// asking is how many callers of this process wait for the answer of a shard.
func asking() (n int) {
	buf := make([]byte, 4<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		state, _, _ := strings.Cut(g, "]")
		sleeps := strings.Contains(state, "[sync.Cond.Wait") && strings.Contains(g, "dispatch.(*Ask).Sleep(")
		watches := strings.Contains(state, "[select") && strings.Contains(g, "dispatch.(*Ask).watch(")
		if sleeps || watches {
			n++
		}
	}
	return n
}

// metrics are all metrics of this moment by name.
func (p *probe) metrics(tb testing.TB) map[string]metricdata.Metrics {
	tb.Helper()
	return collected(tb, p.reader, "")
}

// collected are the metrics of a package by name.
func collected(tb testing.TB, reader *sdkmetric.ManualReader, of string) map[string]metricdata.Metrics {
	tb.Helper()
	var all metricdata.ResourceMetrics
	limittest.Must(tb, reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/shardlimit/shardlimit"+of {
			tb.Errorf("a metric of the scope %q", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// point is one measured value: of a counter or gauge, or the sum and count of a histogram.
type point struct {
	value float64
	count uint64
}

// points are the values of a metric by their attributes, written as k=v,k=v.
func points(m metricdata.Metrics) map[string]point {
	found := map[string]point{}
	name := func(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			found[name(p.Attributes)] = point{value: float64(p.Value)}
		}
	case metricdata.Gauge[int64]:
		for _, p := range data.DataPoints {
			found[name(p.Attributes)] = point{value: float64(p.Value)}
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			found[name(p.Attributes)] = point{value: p.Value}
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			found[name(p.Attributes)] = point{float64(p.Sum), p.Count}
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			found[name(p.Attributes)] = point{p.Sum, p.Count}
		}
	}
	return found
}

// value is one value of one metric.
func (p *probe) value(tb testing.TB, metric, attributes string) point {
	tb.Helper()
	return points(p.metrics(tb)[metric])[attributes]
}

// tells asks that a metric has these values, and maybe others.
func (p *probe) tells(tb testing.TB, metric string, want map[string]float64) {
	tb.Helper()
	got := points(p.metrics(tb)[metric])
	for attributes, value := range want {
		if is, told := got[attributes]; !told || is.value != value {
			tb.Errorf("%s{%s} is %v, want %v", metric, attributes, is.value, value)
		}
	}
}

package telemetrytest

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// participant is the name of the process under test; it must not come out anywhere.
const participant = "participant-that-must-not-be-told"

// probe is a client whose metrics and spans are read back.
type probe struct {
	client *shardlimit.Client
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
	server []*redistest.Server
	proxy  []*redistest.Proxy
	sent   atomic.Int64 // script calls for shards written to connections
	prefix string
	nodes  []shardlimit.Node
}

// patience is what a call on a busy machine is given.
const patience = 2 * time.Minute

// newProbe starts n nodes n0, n1, ... behind proxies and a client of them.
func newProbe(tb testing.TB, n int, change ...func(*shardlimit.Config)) *probe {
	tb.Helper()
	p := &probe{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder(), prefix: redistest.Prefix(tb)}
	p.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p.spans))
	p.server = redistest.Servers(tb, n)
	for i, s := range p.server {
		p.proxy = append(p.proxy, redistest.NewProxy(tb, s.Addr()))
		option := s.ClientOption()
		option.InitAddress = []string{p.proxy[i].Addr()}
		option.DialCtxFn = p.dial
		option.Dialer.Timeout, option.ConnWriteTimeout = patience, patience
		// one connection, which is there: none has to be made while a test stalls the node
		option.PipelineMultiplex = -1
		p.nodes = append(p.nodes, shardlimit.Node{Name: "n" + string(rune('0'+i)), Redis: option})
	}
	cfg := shardlimit.Config{
		Nodes:          p.nodes,
		KeyPrefix:      p.prefix,
		Participant:    participant,
		CallTimeout:    patience,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader)),
		TracerProvider: p.traces,
	}
	for _, c := range change {
		c(&cfg)
	}
	var err error
	if p.client, err = shardlimit.New(cfg); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.client.Close)
	return p
}

func (p *probe) dial(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &counted{conn, &p.sent}, nil
}

// shardKey is what the key of a shard has, and no key of a record.
var shardKey = regexp.MustCompile(`\}(f[^:]*:)?[lcwtq]:`)

// counted counts the script calls for shards that are written to a connection.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	for _, call := range bytes.Split(b, []byte("EVALSHA"))[1:] {
		if shardKey.Match(call) {
			c.sent.Add(1)
		}
	}
	return c.Conn.Write(b)
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

// other is another process on the same nodes, whose telemetry goes nowhere.
func (p *probe) other(tb testing.TB) *shardlimit.Client {
	tb.Helper()
	c, err := shardlimit.New(shardlimit.Config{Nodes: p.nodes, KeyPrefix: p.prefix, CallTimeout: patience})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func limiter(tb testing.TB, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Limiter {
	tb.Helper()
	l, err := c.Limiter(context.Background(), name, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// metrics are all metrics of this moment by name.
func (p *probe) metrics(tb testing.TB) map[string]metricdata.Metrics {
	tb.Helper()
	var all metricdata.ResourceMetrics
	if err := p.reader.Collect(context.Background(), &all); err != nil {
		tb.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/shardlimit/shardlimit" {
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

// await polls until the condition holds.
func await(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("still not: %s", what)
		}
	}
}

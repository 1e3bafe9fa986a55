package grpclimit_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
)

// provider is a MeterProvider with one meter.
type provider struct {
	noop.MeterProvider
	meter *meter
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

// meter counts what its instruments record, by name and attributes. Without a map it has none.
type meter struct {
	noop.Meter
	seen map[string]int
}

var errNoInstrument = errors.New("no instrument")

func (m *meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if m.seen == nil {
		return nil, errNoInstrument
	}
	return histogram{meter: m, name: name}, nil
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{meter: m, name: name}, nil
}

type histogram struct {
	noop.Float64Histogram
	meter *meter
	name  string
}

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	set := metric.NewRecordConfig(o).Attributes()
	h.meter.seen[h.name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"]++
}

type counter struct {
	noop.Int64Counter
	meter *meter
	name  string
}

func (c counter) Add(context.Context, int64, ...metric.AddOption) { c.meter.seen[c.name+"{}"]++ }

// A client's calls are told by what became of them, and the pauses by what asked for them, as those
// of a Transport are.
func TestCallsOfAClientAreMeasured(t *testing.T) {
	m := &meter{seen: map[string]int{}}
	client := &grpclimit.Client{MeterProvider: provider{meter: m},
		Permits: grpclimit.WaitOne(&waits{err: shardlimit.ErrWaitTooLong})}
	if err := through(t.Context(), client, fine); err == nil {
		t.Error("the call was made")
	}
	calls := 0
	if err := through(t.Context(), &grpclimit.Client{MeterProvider: provider{meter: m}, Retries: 1}, func() error {
		if calls++; calls == 1 {
			return asks(t, codes.ResourceExhausted, time.Millisecond)
		}
		return nil
	}); err != nil || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	page, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"ratelimit.grpc.wait.duration{outcome=made}": 2, "ratelimit.grpc.wait.duration{outcome=denied}": 1,
		"ratelimit.grpc.pause.duration{outcome=ok,rpc.response.status_code=RESOURCE_EXHAUSTED}": 1,
		"ratelimit.grpc.retries{}": 1,
	} {
		if m.seen[name] != want {
			t.Errorf("%s: %d, want %d of %v", name, m.seen[name], want, m.seen)
		}
		name, _, _ = strings.Cut(name, "{")
		if sibling := strings.Replace(name, "grpc", "http", 1); !strings.Contains(string(page), "| `"+sibling+"` |") {
			t.Errorf("the document has no %s", sibling)
		}
	}
	for _, told := range []string{"`grpclimit.Client`", "`grpc`", "`rpc.response.status_code`"} {
		if !strings.Contains(string(page), told) {
			t.Errorf("the document has no %s", told)
		}
	}
}

// A call is made though its provider makes no instruments.
func TestACallWithoutInstruments(t *testing.T) {
	c := &grpclimit.Client{MeterProvider: provider{meter: &meter{}}}
	if err := through(t.Context(), c, fine); err != nil {
		t.Error(err)
	}
}

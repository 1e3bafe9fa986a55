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
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// provider is a MeterProvider with one meter.
type provider struct {
	noop.MeterProvider
	meter
}

func (p provider) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

// meter makes instruments that count in a map, by name and attributes. Without one it makes none.
type meter struct {
	noop.Meter
	seen map[string]int
}

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if m.seen == nil {
		return nil, errors.New("no instrument")
	}
	return instrument{name: name, seen: m.seen}, nil
}

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return instrument{name: name, seen: m.seen}, nil
}

// instrument is a histogram and a counter.
type instrument struct {
	noop.Float64Histogram
	embedded.Int64Counter
	name string
	seen map[string]int
}

func (i instrument) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	set := metric.NewRecordConfig(o).Attributes()
	i.seen[i.name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"]++
}

func (i instrument) Add(context.Context, int64, ...metric.AddOption) { i.seen[i.name+"{}"]++ }

// A client's calls are told by what became of them, and the pauses by what asked for them, as those
// of a Transport are.
func TestCallsOfAClientAreMeasured(t *testing.T) {
	seen := map[string]int{}
	own := provider{meter: meter{seen: seen}}
	later := (&waits{err: shardlimit.ErrWaitTooLong}).all
	if err := through(t.Context(), &grpclimit.Client{MeterProvider: own, Permits: later}, fine); err == nil {
		t.Error("the call was made")
	}
	answers := []error{asks(t, codes.ResourceExhausted, time.Millisecond), nil}
	limittest.Must(t, through(t.Context(), &grpclimit.Client{MeterProvider: own, Retries: 1}, func() error {
		defer func() { answers = answers[1:] }()
		return answers[0]
	}))
	page, err := os.ReadFile("../docs/reference/metrics.md")
	limittest.Must(t, err)
	for name, want := range map[string]int{
		"ratelimit.grpc.wait.duration{outcome=made}": 2, "ratelimit.grpc.wait.duration{outcome=denied}": 1,
		"ratelimit.grpc.pause.duration{outcome=ok,rpc.response.status_code=RESOURCE_EXHAUSTED}": 1,
		"ratelimit.grpc.retries{}": 1,
	} {
		if seen[name] != want {
			t.Errorf("%s: %d, want %d of %v", name, seen[name], want, seen)
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
	limittest.Must(t, through(t.Context(), &grpclimit.Client{MeterProvider: provider{}}, fine))
}

package adapter

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/shardlimit/shardlimit"
)

// Bounds of the histograms, in seconds.
var (
	heldBounds  = []float64{1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 10, 30, 60, 300}
	pauseBounds = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 3600}
)

// Meters are the instruments of a client that holds what it sends. Targets and keys never become
// attributes. Safe for concurrent use.
type Meters struct {
	held    metric.Float64Histogram
	pauses  metric.Float64Histogram
	retries metric.Int64Counter
}

// NewMeters makes the instruments of a protocol, http or grpc, which counts requests or calls. No
// provider means the global one. One that cannot make them is told of as OpenTelemetry has it, and
// nothing is measured.
func NewMeters(provider metric.MeterProvider, protocol, unit string) *Meters {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := provider.Meter("github.com/shardlimit/shardlimit/" + protocol + "limit")
	var all Meters
	var errs [3]error
	all.held, errs[0] = m.Float64Histogram("ratelimit."+protocol+".wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time each "+unit+" was held for permits and pauses before it was made, or not."),
		metric.WithExplicitBucketBoundaries(heldBounds...))
	all.pauses, errs[1] = m.Float64Histogram("ratelimit."+protocol+".pause.duration", metric.WithUnit("s"),
		metric.WithDescription("Pauses that answers asked for."), metric.WithExplicitBucketBoundaries(pauseBounds...))
	all.retries, errs[2] = m.Int64Counter("ratelimit."+protocol+".retries", metric.WithUnit("{"+unit+"}"),
		metric.WithDescription("How often a "+unit+" was made again after a pause."))
	if err := errors.Join(errs[:]...); err != nil {
		otel.Handle(err)
		return NewMeters(noop.NewMeterProvider(), protocol, unit)
	}
	return &all
}

// waited reports how long something was held, and whether it was made. ctx is that of its caller.
func (m *Meters) waited(ctx context.Context, held time.Duration, err error) {
	outcome := "made"
	switch {
	case err == nil:
	case errors.Is(err, shardlimit.ErrWaitTooLong), errors.Is(err, shardlimit.ErrExceedsLimit):
		outcome = "denied"
	case ctx.Err() != nil:
		outcome = "canceled"
	default:
		outcome = "error"
	}
	m.held.Record(ctx, held.Seconds(), metric.WithAttributes(attribute.String("outcome", outcome)))
}

// Pause begins a pause that an answer of that status asked for, and reports it. The error is why
// the fleet may not know of it.
func (m *Meters) Pause(ctx context.Context, pauses Pauses, key string, pause time.Duration,
	status attribute.KeyValue) error {
	outcome, err := "ok", pauses.Begin(ctx, key, pause)
	if err != nil {
		outcome = "error"
	}
	m.pauses.Record(ctx, pause.Seconds(), metric.WithAttributes(status, attribute.String("outcome", outcome)))
	return err
}

// Retried counts what is made again.
func (m *Meters) Retried(ctx context.Context) { m.retries.Add(ctx, 1) }

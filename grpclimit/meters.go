package grpclimit

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"

	"github.com/shardlimit/shardlimit"
)

// Bounds of the histograms of a Client, in seconds, as those of httplimit.Transport.
var (
	heldBounds  = []float64{1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 10, 30, 60, 300}
	pauseBounds = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 3600}
)

// meters are the instruments of a Client. Targets, methods and keys never become attributes.
type meters struct {
	held    metric.Float64Histogram
	pauses  metric.Float64Histogram
	retries metric.Int64Counter
}

func newMeters(provider metric.MeterProvider) (*meters, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := provider.Meter("github.com/shardlimit/shardlimit/grpclimit")
	var all meters
	var errs [3]error
	all.held, errs[0] = m.Float64Histogram("ratelimit.grpc.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time calls were held for permits and pauses before they were made, or not."),
		metric.WithExplicitBucketBoundaries(heldBounds...))
	all.pauses, errs[1] = m.Float64Histogram("ratelimit.grpc.pause.duration", metric.WithUnit("s"),
		metric.WithDescription("Pauses that answers asked for."), metric.WithExplicitBucketBoundaries(pauseBounds...))
	all.retries, errs[2] = m.Int64Counter("ratelimit.grpc.retries", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were made again after a pause."))
	return &all, errors.Join(errs[:]...)
}

// waited reports how long a call was held, and whether it was made.
func (m *meters) waited(ctx context.Context, held time.Duration, err error) {
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

// statuses are the names of the codes that ask for a pause.
var statuses = map[codes.Code]string{codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.Unavailable: "UNAVAILABLE"}

// paused reports a pause that an answer asked for, and whether the fleet can know of it.
func (m *meters) paused(ctx context.Context, code codes.Code, pause time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.pauses.Record(ctx, pause.Seconds(), metric.WithAttributes(
		attribute.String("rpc.response.status_code", statuses[code]), attribute.String("outcome", outcome)))
}

// retried counts a call that is made again.
func (m *meters) retried(ctx context.Context) { m.retries.Add(ctx, 1) }

// Package telemetry reports decisions and script calls to OpenTelemetry. It knows names and numbers
// only. Every attribute set is made once per limiter and node, so that a measurement allocates
// nothing; names of participants and keys of families never become attributes.
package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
)

const scope = "github.com/shardlimit/shardlimit"

// Telemetry holds the instruments of a Client.
type Telemetry struct {
	clock   *clock.Clock
	tracer  trace.Tracer
	Tracing bool // false if spans surely go nowhere

	decisions metric.Int64Counter
	permits   metric.Int64Counter
	unknown   metric.Int64Counter
	duration  metric.Float64Histogram
	waiting   metric.Float64Histogram
	batch     metric.Int64Histogram
	script    metric.Float64Histogram
	gauges
}

// gauges are the instruments that are read when somebody wants to know them.
type gauges struct {
	remaining metric.Int64ObservableGauge
	available metric.Int64ObservableGauge
	waiters   metric.Int64ObservableGauge
	lost      metric.Int64ObservableGauge
	limit     metric.Int64ObservableGauge
	window    metric.Float64ObservableGauge
	observer  metric.Registration
}

// Bounds of the duration histograms in seconds: a remembered denial takes
// nanoseconds, a script call a fraction of a millisecond, a stalled node the call timeout.
var (
	decisionBounds = []float64{1e-6, 1e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25,
		1}
	waitBounds  = []float64{1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800}
	batchBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
)

// New returns the instruments for a Client, whose gauges read tells when somebody wants to know
// them.
func New(clock *clock.Clock, meters metric.MeterProvider, tracers trace.TracerProvider,
	read func(Gauges)) (*Telemetry, error) {
	t := &Telemetry{clock: clock, tracer: tracers.Tracer(scope)}
	_, off := tracers.(tracenoop.TracerProvider)
	t.Tracing = !off
	m := meters.Meter(scope)
	var errs [14]error
	t.decisions, errs[0] = m.Int64Counter("ratelimit.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions by outcome and by where they were made."))
	t.permits, errs[1] = m.Int64Counter("ratelimit.permits", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits granted, asked for in vain, given back, and charged."))
	t.unknown, errs[2] = m.Int64Counter("ratelimit.permits.unknown", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits that may have been spent without a caller getting them: lost replies and "+
			"callers that left."))
	t.duration, errs[3] = m.Float64Histogram("ratelimit.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("Time a decision took."), metric.WithExplicitBucketBoundaries(decisionBounds...))
	t.waiting, errs[4] = m.Float64Histogram("ratelimit.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time callers were blocked in Wait."),
		metric.WithExplicitBucketBoundaries(waitBounds...))
	t.batch, errs[5] = m.Int64Histogram("ratelimit.batch.size", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that one script call served."),
		metric.WithExplicitBucketBoundaries(batchBounds...))
	t.script, errs[6] = m.Float64Histogram("ratelimit.script.duration", metric.WithUnit("s"),
		metric.WithDescription("Round trip of a script call."), metric.WithExplicitBucketBoundaries(decisionBounds...))
	t.remaining, errs[7] = m.Int64ObservableGauge("ratelimit.shard.remaining", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits free on a shard when it was last heard from."))
	t.available, errs[8] = m.Int64ObservableGauge("ratelimit.shard.available",
		metric.WithDescription("1 if calls are sent to the shard, 0 while its node does not answer."))
	t.waiters, errs[9] = m.Int64ObservableGauge("ratelimit.waiters", metric.WithUnit("{call}"),
		metric.WithDescription("Calls blocked in Wait."))
	t.lost, errs[11] = m.Int64ObservableGauge("ratelimit.node.lost",
		metric.WithDescription("1 while what the node has of limits with takeover is taken over, else 0."))
	t.limit, errs[12] = m.Int64ObservableGauge("ratelimit.limit", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits that a limit has in each window."))
	t.window, errs[13] = m.Float64ObservableGauge("ratelimit.limit.window", metric.WithUnit("s"),
		metric.WithDescription("Window of a limit."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	t.observer, errs[10] = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(Gauges{t, o})
		return nil
	}, t.remaining, t.available, t.waiters, t.lost, t.limit, t.window)
	return t, errs[10]
}

// Close ends the observation of the gauges.
func (t *Telemetry) Close() {
	if t.observer != nil {
		_ = t.observer.Unregister()
	}
}

// Gauges takes the present state of limiters.
type Gauges struct {
	t *Telemetry
	o metric.Observer
}

// Waiters tells how many calls wait for permits of a limiter.
func (g Gauges) Waiters(limiter string, n int) {
	g.o.ObserveInt64(g.t.waiters, int64(n), metric.WithAttributes(attribute.String("limiter", limiter)))
}

// Limit tells the limit in force, of which there are so many permits in a window.
func (g Gauges) Limit(limiter string, permits int64, window time.Duration) {
	set := metric.WithAttributes(attribute.String("limiter", limiter))
	g.o.ObserveInt64(g.t.limit, permits, set)
	g.o.ObserveFloat64(g.t.window, window.Seconds(), set)
}

// Node tells whether a node is lost to limits with takeover.
func (g Gauges) Node(node string, lost bool) {
	g.o.ObserveInt64(g.t.lost, one(lost), metric.WithAttributes(attribute.String("node", node)))
}

// Shard tells whether calls are sent to a shard, and what it had free when it was last heard
// from; -1: it never was.
func (g Gauges) Shard(limiter, shard, node string, available bool, free int64) {
	set := metric.WithAttributes(attribute.String("limiter", limiter), attribute.String("shard", shard),
		attribute.String("node", node))
	g.o.ObserveInt64(g.t.available, one(available), set)
	if free >= 0 {
		g.o.ObserveInt64(g.t.remaining, free, set)
	}
}

// one is 1 of what is so, else 0.
func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// Decision is what is told of one decision.
type Decision struct {
	Outcome    Outcome
	Reason     Reason // of a denial
	Source     Source
	Permits    int64 // granted, or asked for if none were
	Remaining  int64
	RetryAfter time.Duration
}

// Listens reports whether anybody wants to be told of decisions, or of how long callers waited. To
// put together what is told takes a tenth of the time of a denial from memory.
func (t *Telemetry) Listens(ctx context.Context) bool {
	return t.decisions.Enabled(ctx) || t.permits.Enabled(ctx) || t.duration.Enabled(ctx) || t.waiting.Enabled(ctx) ||
		t.Tracing && trace.SpanFromContext(ctx).IsRecording()
}

// Decided reports one decision: to the metrics, and to the caller's span. start is when the call
// began.
func (t *Telemetry) Decided(ctx context.Context, l *Limiter, d *Decision, start int64) {
	if t.decisions.Enabled(ctx) {
		t.decisions.Add(ctx, 1, l.decided(d)...)
	}
	if t.permits.Enabled(ctx) {
		t.permits.Add(ctx, d.Permits, l.permits[d.Outcome]...)
	}
	if t.duration.Enabled(ctx) {
		t.duration.Record(ctx, float64(t.clock.Now()-start)/1e9, l.took[d.Outcome]...)
	}
	if t.Tracing && trace.SpanFromContext(ctx).IsRecording() {
		describe(trace.SpanFromContext(ctx), l, d)
	}
}

// describe puts a decision on the caller's span.
func describe(span trace.Span, l *Limiter, d *Decision) {
	span.SetAttributes(
		attribute.String("ratelimit.limiter", l.name),
		attribute.String("ratelimit.outcome", d.Outcome.String()),
		attribute.String("ratelimit.source", d.Source.String()),
		attribute.Int64("ratelimit.permits", d.Permits),
		attribute.Int64("ratelimit.remaining", d.Remaining),
		attribute.Int64("ratelimit.retry_after_ms", d.RetryAfter.Milliseconds()))
	if d.Reason != 0 {
		span.SetAttributes(attribute.String("ratelimit.reason", d.Reason.String()))
	}
}

// Waited reports a call that was blocked, or might have been.
func (t *Telemetry) Waited(ctx context.Context, l *Limiter, d *Decision, start int64) {
	t.Decided(ctx, l, d, start)
	if t.waiting.Enabled(ctx) {
		t.waiting.Record(ctx, float64(t.clock.Now()-start)/1e9, l.took[d.Outcome]...)
	}
}

// Settled counts permits that were granted and came back, and those that were charged beyond what
// was granted.
func (t *Telemetry) Settled(l *Limiter, returned, charged int64) {
	for i, n := range []int64{returned, charged} {
		if n > 0 {
			t.permits.Add(context.Background(), n, l.settled[i]...)
		}
	}
}

// Lost counts permits that may have been spent for nobody.
func (t *Telemetry) Lost(l *Limiter, n int64) { t.unknown.Add(context.Background(), n, l.limiter...) }

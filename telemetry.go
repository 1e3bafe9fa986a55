package shardlimit

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/script"
)

const scope = "github.com/shardlimit/shardlimit"

// outcome is how a decision ended, for metrics.
type outcome uint8

const (
	outcomeAllowed outcome = iota
	outcomeDenied
	outcomeError
	outcomeDegraded
	outcomeCount
)

func (o outcome) String() string {
	return [...]string{"allowed", "denied", "error", "degraded"}[o]
}

// telemetry holds the instruments of a Client. Every attribute set is made once
// per limiter, so that a measurement allocates nothing; names of participants
// and keys of families never become attributes.
type telemetry struct {
	client  *Client
	tracer  trace.Tracer
	tracing bool // false if spans surely go nowhere

	decisions metric.Int64Counter
	permits   metric.Int64Counter
	unknown   metric.Int64Counter
	duration  metric.Float64Histogram
	waiting   metric.Float64Histogram
	batch     metric.Int64Histogram
	script    metric.Float64Histogram
	remaining metric.Int64ObservableGauge
	available metric.Int64ObservableGauge
	waiters   metric.Int64ObservableGauge
	observer  metric.Registration
}

// Bounds of the duration histograms in seconds: a remembered denial takes
// nanoseconds, a script call a fraction of a millisecond, a stalled node the call timeout.
var (
	decisionBounds = []float64{1e-6, 1e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1}
	waitBounds     = []float64{1e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800}
	batchBounds    = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192}
)

func newTelemetry(c *Client) (*telemetry, error) {
	t := &telemetry{client: c, tracer: c.cfg.TracerProvider.Tracer(scope)}
	_, off := c.cfg.TracerProvider.(tracenoop.TracerProvider)
	t.tracing = !off
	m := c.cfg.MeterProvider.Meter(scope)
	var errs [11]error
	t.decisions, errs[0] = m.Int64Counter("ratelimit.decisions", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions by outcome and by where they were made."))
	t.permits, errs[1] = m.Int64Counter("ratelimit.permits", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits asked for, by outcome."))
	t.unknown, errs[2] = m.Int64Counter("ratelimit.permits.unknown", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits that may have been spent without a caller getting them: lost replies and callers that left."))
	t.duration, errs[3] = m.Float64Histogram("ratelimit.decision.duration", metric.WithUnit("s"),
		metric.WithDescription("Time a decision took."), metric.WithExplicitBucketBoundaries(decisionBounds...))
	t.waiting, errs[4] = m.Float64Histogram("ratelimit.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time callers were blocked in Wait."), metric.WithExplicitBucketBoundaries(waitBounds...))
	t.batch, errs[5] = m.Int64Histogram("ratelimit.batch.size", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that one script call served."), metric.WithExplicitBucketBoundaries(batchBounds...))
	t.script, errs[6] = m.Float64Histogram("ratelimit.script.duration", metric.WithUnit("s"),
		metric.WithDescription("Round trip of a script call."), metric.WithExplicitBucketBoundaries(decisionBounds...))
	t.remaining, errs[7] = m.Int64ObservableGauge("ratelimit.shard.remaining", metric.WithUnit("{permit}"),
		metric.WithDescription("Permits free on a shard when it was last heard from."))
	t.available, errs[8] = m.Int64ObservableGauge("ratelimit.shard.available",
		metric.WithDescription("1 if calls are sent to the shard, 0 while its node does not answer."))
	t.waiters, errs[9] = m.Int64ObservableGauge("ratelimit.waiters", metric.WithUnit("{call}"),
		metric.WithDescription("Calls blocked in Wait."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	t.observer, errs[10] = m.RegisterCallback(t.observe, t.remaining, t.available, t.waiters)
	return t, errs[10]
}

func (t *telemetry) close() {
	if t.observer != nil {
		_ = t.observer.Unregister()
	}
}

// observe reports the gauges of every limiter. Keys of families are left out:
// there may be millions.
func (t *telemetry) observe(_ context.Context, o metric.Observer) error {
	now := t.client.now()
	for _, c := range t.client.cores() {
		o.ObserveInt64(t.waiters, int64(c.accounts.waiters()), metric.WithAttributes(attribute.String("limiter", c.name)))
		table := c.table.Load()
		if table == nil {
			continue
		}
		for _, l := range table.lanes {
			set := metric.WithAttributes(attribute.String("limiter", c.name),
				attribute.String("shard", l.tag), attribute.String("node", l.node.name))
			up := int64(0)
			if l.ready(now) {
				up = 1
			}
			o.ObserveInt64(t.available, up, set)
			if l.known.heard.Load() {
				o.ObserveInt64(t.remaining, l.known.free.Load(), set)
			}
		}
	}
	return nil
}

// decisionSets are the attribute sets of decisions by an algorithm.
type decisionSets struct {
	algorithm Algorithm
	sets      [outcomeCount][sources][]metric.AddOption
}

// outcomes are the ready-made attribute sets of one limiter.
type outcomes struct {
	name     string
	decision atomic.Pointer[decisionSets]
	permits  [outcomeCount][]metric.AddOption
	limiter  []metric.AddOption
	took     [outcomeCount][]metric.RecordOption
	batch    []metric.RecordOption
}

func newOutcomes(limiter string, algorithm Algorithm) *outcomes {
	name := attribute.String("limiter", limiter)
	add := func(kv ...attribute.KeyValue) []metric.AddOption {
		return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(kv...))}
	}
	record := func(kv ...attribute.KeyValue) []metric.RecordOption {
		return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(kv...))}
	}
	o := &outcomes{name: limiter, limiter: add(name), batch: record(name)}
	o.counts(algorithm)
	for i := range outcomeCount {
		result := attribute.String("outcome", i.String())
		o.permits[i] = add(name, result)
		o.took[i] = record(name, result)
	}
	return o
}

// counts notes by which algorithm the limit counts now.
func (o *outcomes) counts(algorithm Algorithm) {
	if d := o.decision.Load(); d != nil && d.algorithm == algorithm {
		return
	}
	d := &decisionSets{algorithm: algorithm}
	for i := range outcomeCount {
		for s := range sources {
			d.sets[i][s] = []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(
				attribute.String("limiter", o.name), attribute.String("algorithm", algorithm.String()),
				attribute.String("outcome", i.String()), attribute.String("source", s.String())))}
		}
	}
	o.decision.Store(d)
}

// scriptOptions are the ready-made attribute sets of script calls to a node: ok, error.
func scriptOptions(node string) (sets [2][]metric.RecordOption) {
	for i, outcome := range []string{"ok", "error"} {
		sets[i] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(
			attribute.String("node", node), attribute.String("outcome", outcome)))}
	}
	return sets
}

// decided reports one decision: to the metrics, and to the caller's span.
func (t *telemetry) decided(ctx context.Context, c *core, d *Decision, n, start int64, err error) {
	result, permits := resultOf(d, n, err)
	o := c.metrics
	if t.decisions.Enabled(ctx) {
		t.decisions.Add(ctx, 1, o.decision.Load().sets[result][d.source]...)
	}
	if t.permits.Enabled(ctx) {
		t.permits.Add(ctx, permits, o.permits[result]...)
	}
	if t.duration.Enabled(ctx) {
		t.duration.Record(ctx, float64(t.client.now()-start)/1e9, o.took[result]...)
	}
	if !t.tracing {
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		describe(span, c, d, result, permits)
	}
}

// describe puts a decision on the caller's span.
func describe(span trace.Span, c *core, d *Decision, result outcome, permits int64) {
	span.SetAttributes(
		attribute.String("ratelimit.limiter", c.metricName()),
		attribute.String("ratelimit.outcome", result.String()),
		attribute.String("ratelimit.source", d.source.String()),
		attribute.Int64("ratelimit.permits", permits),
		attribute.Int64("ratelimit.remaining", d.Remaining),
		attribute.Int64("ratelimit.retry_after_ms", d.RetryAfter.Milliseconds()))
}

func resultOf(d *Decision, n int64, err error) (outcome, int64) {
	switch {
	case err != nil:
		return outcomeError, n
	case d.Degraded && d.Allowed:
		return outcomeDegraded, d.Granted
	case d.Allowed:
		return outcomeAllowed, d.Granted
	}
	return outcomeDenied, n
}

// waited reports a call that was blocked, or might have been.
func (t *telemetry) waited(ctx context.Context, c *core, d *Decision, n, start int64, err error) {
	t.decided(ctx, c, d, n, start, err)
	result, _ := resultOf(d, n, err)
	if t.waiting.Enabled(ctx) {
		t.waiting.Record(ctx, float64(t.client.now()-start)/1e9, c.metrics.took[result]...)
	}
}

// lost counts permits that may have been spent for nobody.
func (t *telemetry) lost(c *core, n int64) {
	t.unknown.Add(context.Background(), n, c.metrics.limiter...)
}

// noSpan is what a context without a span carries.
var noSpan = trace.SpanFromContext(context.Background())

// spanOf returns the span of a context, nil if it has none.
func spanOf(ctx context.Context) trace.Span {
	if span := trace.SpanFromContext(ctx); span != noSpan {
		return span
	}
	return nil
}

// linkTo returns a link to a span if that is sampled, nil otherwise.
func linkTo(span trace.Span) *trace.Link {
	if span == nil {
		return nil
	}
	return sampled(span)
}

// sampled is linkTo for a span that there is. A span's context is large: inlined,
// it would lie on the stack of every caller.
//
//go:noinline
func sampled(span trace.Span) *trace.Link {
	if s := span.SpanContext(); s.IsSampled() {
		return &trace.Link{SpanContext: s}
	}
	return nil
}

// startCall opens the span of a script call if one of the calls that it serves
// is traced: as a child of the first such call, linked to all of them.
func (t *telemetry) startCall(ctx context.Context, l *lane, b *batch) (context.Context, trace.Span) {
	if len(b.links) == 0 {
		return ctx, nil
	}
	ctx = trace.ContextWithSpanContext(ctx, b.links[0].SpanContext)
	attrs := []attribute.KeyValue{
		attribute.String("db.system.name", "redis"),
		attribute.String("db.operation.name", "EVALSHA"),
		attribute.String("db.stored_procedure.name", "slidinglog_take"),
		attribute.String("ratelimit.limiter", l.core.metricName()),
		attribute.String("ratelimit.shard", l.tag),
		attribute.String("ratelimit.node", l.node.name),
	}
	if b.calls() > 1 {
		attrs = append(attrs, attribute.Int64("db.operation.batch.size", b.calls()))
	}
	return t.tracer.Start(ctx, "EVALSHA slidinglog_take", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(b.links...), trace.WithAttributes(attrs...))
}

// endCall reports how a script call went.
func (t *telemetry) endCall(ctx context.Context, span trace.Span, l *lane, calls int64, took time.Duration, err error) {
	failed := 0
	if err != nil {
		failed = 1
	}
	if t.script.Enabled(ctx) {
		t.script.Record(ctx, took.Seconds(), l.node.took[failed]...)
	}
	if t.batch.Enabled(ctx) {
		t.batch.Record(ctx, calls, l.core.metrics.batch...)
	}
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		if text, ok := script.Said(err); ok {
			span.SetAttributes(attribute.String("db.response.status_code", errorCode(text)))
		} else {
			span.SetAttributes(attribute.String("error.type", errorType(err)))
		}
	}
	span.End()
}

// errorCode is the first word of a Redis error if that is a code, and else the code of all others.
func errorCode(text string) string {
	code, rest, _ := strings.Cut(text, " ")
	if code == "" || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" || strings.HasPrefix(rest, "failure in script") {
		return "ERR"
	}
	return code
}

func errorType(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "connection"
}

// metricName is the name under which a limiter is reported: a family for its keys.
func (c *core) metricName() string {
	if c.family != nil {
		return c.family.core.name
	}
	return c.name
}

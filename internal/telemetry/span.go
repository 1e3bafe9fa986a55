package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/script"
)

// noSpan is what a context without a span carries.
var noSpan = trace.SpanFromContext(context.Background())

// LinkTo returns a link to the span of a context if that is sampled, nil otherwise.
func LinkTo(ctx context.Context) *trace.Link {
	if span := trace.SpanFromContext(ctx); span != noSpan {
		return sampled(span)
	}
	return nil
}

// sampled is LinkTo for a span that there is. A span's context is large: inlined,
// it would lie on the stack of every caller.
//
//go:noinline
func sampled(span trace.Span) *trace.Link {
	if s := span.SpanContext(); s.IsSampled() {
		return &trace.Link{SpanContext: s}
	}
	return nil
}

// Call is one script call as it is reported.
type Call struct {
	Operation Operation
	Limiter   *Limiter // nil: it is for none
	Node      *Node
	Shard     string   // hash tag of its keys
	Shards    int      // how many they are, of a call for several
	Served    []Served // the callers of each limiter; nil if it is for none of them in particular
}

// Served is how many callers of one limiter a script call serves.
type Served struct {
	Limiter *Limiter
	Calls   int64
}

// Start opens the span of a script call if one of the calls that it serves is traced: as a child of
// the first such call, linked to all of them; or as a child of the span of ctx.
func (t *Telemetry) Start(ctx context.Context, c *Call, links []trace.Link) (context.Context, trace.Span) {
	switch {
	case !t.Tracing:
		return ctx, nil
	case len(links) > 0:
		ctx = trace.ContextWithSpanContext(ctx, links[0].SpanContext)
	case LinkTo(ctx) == nil:
		return ctx, nil
	}
	name := c.Operation.String()
	attrs := []attribute.KeyValue{
		attribute.String("db.system.name", "redis"),
		attribute.String("db.operation.name", "EVALSHA"),
		attribute.String("db.stored_procedure.name", name),
		attribute.String("ratelimit.node", c.Node.name),
	}
	if len(c.Served) <= 1 && c.Limiter != nil {
		attrs = append(attrs, attribute.String("ratelimit.limiter", c.Limiter.name))
	}
	if c.Shards > 1 {
		attrs = append(attrs, attribute.Int("ratelimit.shards", c.Shards))
	} else {
		attrs = append(attrs, attribute.String("ratelimit.shard", c.Shard))
	}
	calls := int64(0)
	for _, s := range c.Served {
		calls += s.Calls
	}
	if calls > 1 {
		attrs = append(attrs, attribute.Int64("db.operation.batch.size", calls))
	}
	return t.tracer.Start(ctx, "EVALSHA "+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(links...), trace.WithAttributes(attrs...))
}

// End reports how a script call went.
func (t *Telemetry) End(ctx context.Context, span trace.Span, c *Call, took time.Duration, err error) {
	if t.script.Enabled(ctx) {
		t.script.Record(ctx, took.Seconds(), c.Node.took[c.Operation][one(err != nil)]...)
	}
	if t.batch.Enabled(ctx) {
		for _, s := range c.Served {
			t.batch.Record(ctx, s.Calls, s.Limiter.batch...)
		}
	}
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		if text, ok := script.Said(err); ok {
			span.SetAttributes(attribute.String("db.response.status_code", ErrorCode(text)))
		} else {
			span.SetAttributes(attribute.String("error.type", errorType(err)))
		}
	}
	span.End()
}

// ErrorCode is the first word of a Redis error if that is a code, and else the code of all others.
func ErrorCode(text string) string {
	code, rest, _ := strings.Cut(text, " ")
	if code == "" || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" ||
		strings.HasPrefix(rest, "failure in script") {
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

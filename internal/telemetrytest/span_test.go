package telemetrytest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// scripts are the spans of script calls that have ended.
func (p *probe) scripts() (found []sdktrace.ReadOnlySpan) {
	for _, s := range p.spans.Ended() {
		if s.InstrumentationScope().Name == "github.com/shardlimit/shardlimit" {
			found = append(found, s)
		}
	}
	return found
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, a := range s.Attributes() {
		found[string(a.Key)] = a.Value.String()
	}
	return found
}

func TestAScriptCallHasOneSpanLinkedToAllItsCallers(t *testing.T) {
	p := newProbe(t, 1)
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(100))
	if _, err := l.Allow(t.Context()); err != nil { // not traced
		t.Fatal(err)
	}
	if n := len(p.scripts()); n != 0 {
		t.Fatalf("%d spans for callers that are not traced", n)
	}
	callers := map[trace.SpanID]bool{}
	batched(t, p, l, 3, func() context.Context {
		ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
		callers[span.SpanContext().SpanID()] = true
		return ctx
	})
	spans := p.scripts()
	if len(spans) != 1 {
		t.Fatalf("%d spans of script calls, want 1", len(spans))
	}
	s := spans[0]
	if s.SpanKind() != trace.SpanKindClient || s.Status().Code != codes.Unset {
		t.Errorf("kind %v, status %v", s.SpanKind(), s.Status())
	}
	got := attributes(s)
	for key, want := range map[string]string{
		"db.system.name":           "redis",
		"db.operation.name":        "EVALSHA",
		"db.operation.batch.size":  "3",
		"db.stored_procedure.name": "take",
		"ratelimit.limiter":        "l",
		"ratelimit.node":           "n0",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if got["ratelimit.shard"] == "" {
		t.Error("the span does not tell the shard")
	}
	if len(s.Links()) != 3 || !callers[s.Parent().SpanID()] {
		t.Errorf("%d links; parent is a caller: %v", len(s.Links()), callers[s.Parent().SpanID()])
	}
	for _, link := range s.Links() {
		if !callers[link.SpanContext.SpanID()] {
			t.Errorf("a link to %v, which is no caller", link.SpanContext.SpanID())
		}
		delete(callers, link.SpanContext.SpanID())
	}
}

func TestTheCallersSpanTellsTheDecision(t *testing.T) {
	p := newProbe(t, 1)
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(5))
	request := func(n int64) map[string]string {
		ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
		_, err := l.AllowN(ctx, n)
		limittest.Must(t, err)
		span.End()
		return attributes(span.(sdktrace.ReadOnlySpan))
	}
	if got := request(5); got["ratelimit.limiter"] != "l" || got["ratelimit.outcome"] != "allowed" ||
		got["ratelimit.source"] != "redis" ||
		got["ratelimit.permits"] != "5" || got["ratelimit.remaining"] != "0" || got["ratelimit.retry_after_ms"] != "0" {
		t.Errorf("allowed: %v", got)
	}
	got := request(1)
	if got["ratelimit.outcome"] != "denied" || got["ratelimit.source"] != "memory" || got["ratelimit.permits"] != "1" {
		t.Errorf("denied: %v", got)
	}
	if got["ratelimit.reason"] != "full" {
		t.Errorf("the reason is %q", got["ratelimit.reason"])
	}
	if after := attribute.StringValue(got["ratelimit.retry_after_ms"]).AsString(); len(after) < 7 { // about 3,600,000
		t.Errorf("retry after %s ms", after)
	}
	if n := len(p.scripts()); n != 1 {
		t.Errorf("%d script calls are traced, want 1: the denial came from memory", n)
	}
}

func TestAFailedScriptCallMarksItsSpan(t *testing.T) {
	p := newProbe(t, 1, func(c *shardlimit.Config) { c.CallTimeout = 200 * time.Millisecond })
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(5))
	limittest.AwaitThat(t, "it is declared", func() bool { _, err := l.Allow(t.Context()); return err == nil })
	ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
	p.posts[0].Proxy.Stall(true)
	_, err := l.Allow(ctx)
	p.posts[0].Proxy.Stall(false)
	span.End()
	if err == nil {
		t.Fatal("a call succeeded without an answer")
	}
	if got := attributes(span.(sdktrace.ReadOnlySpan))["ratelimit.outcome"]; got != "error" {
		t.Errorf("the caller's span: %s", got)
	}
	limittest.AwaitThat(t, "the span has ended", func() bool { return len(p.scripts()) == 1 })
	if s := p.scripts()[0]; s.Status().Code != codes.Error || attributes(s)["error.type"] != "timeout" {
		t.Errorf("%v, %v", s.Status(), attributes(s))
	}
	limittest.AwaitThat(t, "it answers", func() bool { _, err := l.Allow(t.Context()); return err == nil })
	p.posts[0].Do(t, "CONFIG", "SET", "maxmemory", "1")
	limittest.AwaitThat(t, "the refusal is traced", func() bool {
		_, _ = l.Allow(ctx)
		for _, s := range p.scripts() {
			if attributes(s)["db.response.status_code"] == "OOM" {
				return true
			}
		}
		return false
	})
}

// operations are all kinds of calls that there are.
func operations() (names []string) {
	defer func() { _ = recover() }() // behind the last
	for op := telemetry.Operation(0); ; op++ {
		names = append(names, op.String())
	}
}

// Every kind of call to a shard, a record or the membership is timed, with the node and how it
// ended; and those that a caller waits for have a span in its trace.
func TestEveryKindOfCallIsMeasured(t *testing.T) {
	p := newProbe(t, 3, func(c *shardlimit.Config) {
		c.CallTimeout, c.NodeTimeout = 5*time.Second, 5*time.Second
	})
	ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
	l, err := p.client.Limiter(ctx, "l", shardlimit.Limit{Permits: 30, Per: time.Hour, Shards: 3})
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.AllowN(ctx, 25)
	limittest.Must(t, err)
	settled := l.Settle(ctx, d, 0)
	_, reserved := l.Reserve(ctx, 30)
	_, booked := l.Reserve(ctx, 30) // which has to be
	_, peeked := l.Peek(ctx)
	_, asked := l.Participants(ctx)
	if err := errors.Join(settled, reserved, booked, peeked, asked,
		l.SetLimit(ctx, shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 2}), l.Reset(ctx)); err != nil {
		t.Fatal(err)
	}
	p.posts[0].Server.Kill()
	away := func() bool { return p.client.Ping(ctx)[0].Err != nil }
	limittest.AwaitThat(t, "a node is away", away)
	p.posts[0].Server.Restart()
	limittest.AwaitThat(t, "it is back", func() bool { return !away() })
	limittest.Must(t, l.Delete(ctx))
	span.End()
	timed, spans := p.timed(t), map[string]bool{}
	for _, s := range p.scripts() {
		spans[attributes(s)["db.stored_procedure.name"]] = s.Parent().SpanID() == span.SpanContext().SpanID()
	}
	lost, _ := p.metrics(t)["ratelimit.node.lost"].Data.(metricdata.Gauge[int64])
	if len(lost.DataPoints) != 3 || lost.DataPoints[2].Value != 0 {
		t.Errorf("a gauge tells for each node whether it is lost: %+v", lost)
	}
	// of a driver, and of the membership
	background := map[string]bool{"propose": true, "vote": true}
	for _, op := range operations() {
		if !timed[op] {
			t.Errorf("no %s is timed", op)
		}
		if !spans[op] && !background[op] {
			t.Errorf("no %s has a span of the caller's trace", op)
		}
	}
}

// timed is the operations of which a call was timed.
func (p *probe) timed(t *testing.T) map[string]bool {
	t.Helper()
	timed := map[string]bool{}
	for name := range points(p.metrics(t)["ratelimit.script.duration"]) {
		for _, op := range operations() {
			timed[op] = timed[op] || strings.Contains(name, "operation="+op+",")
		}
	}
	return timed
}

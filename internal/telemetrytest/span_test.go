package telemetrytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

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
	limittest.MustGet(t, l, 1) // not traced
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
	want := map[string]string{
		"db.system.name":           "redis",
		"db.operation.name":        "EVALSHA",
		"db.operation.batch.size":  "3",
		"db.stored_procedure.name": "take",
		"ratelimit.limiter":        "l",
		"ratelimit.node":           "n0",
		"ratelimit.shard":          got["ratelimit.shard"],
	}
	if !maps.Equal(got, want) || got["ratelimit.shard"] == "" {
		t.Errorf("the span tells %v, want %v", got, want)
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
	for _, c := range []struct {
		n    int64
		want string
	}{
		{5, `^map\[limiter:l outcome:allowed permits:5 remaining:0 retry_after_ms:0 source:redis\]$`},
		{1, `^map\[limiter:l outcome:denied permits:1 reason:full remaining:0 retry_after_ms:3\d{6} source:memory\]$`},
	} {
		ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
		_, err := l.AllowN(ctx, c.n)
		limittest.Must(t, err)
		span.End()
		got := strings.ReplaceAll(fmt.Sprint(attributes(span.(sdktrace.ReadOnlySpan))), "ratelimit.", "")
		if !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%s, want %s", got, c.want)
		}
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
	limittest.Must(t, err)
	d, err := l.AllowN(ctx, 25)
	limittest.Must(t, err)
	settled := l.Settle(ctx, d, 0)
	_, reserved := l.Reserve(ctx, 30)
	_, booked := l.Reserve(ctx, 30) // which has to be
	_, peeked := l.Peek(ctx)
	_, asked := l.Participants(ctx)
	limittest.Must(t, errors.Join(settled, reserved, booked, peeked, asked,
		l.SetLimit(ctx, shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 2}), l.Reset(ctx)))
	p.posts[0].Server.Kill()
	away := func() bool { return p.client.Ping(ctx)[0].Err != nil }
	limittest.AwaitThat(t, "a node is away", away)
	p.posts[0].Server.Restart()
	limittest.AwaitThat(t, "it is back", func() bool { return !away() })
	limittest.Must(t, l.Delete(ctx))
	span.End()
	var timed strings.Builder
	for attributes := range points(p.metrics(t)["ratelimit.script.duration"]) {
		timed.WriteString(attributes)
	}
	spans := map[string]bool{}
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
		if !strings.Contains(timed.String(), "operation="+op+",") {
			t.Errorf("no %s is timed", op)
		}
		if !spans[op] && !background[op] {
			t.Errorf("no %s has a span of the caller's trace", op)
		}
	}
}

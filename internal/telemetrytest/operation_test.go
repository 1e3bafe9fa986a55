package telemetrytest

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

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
	if err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := l.Settle(ctx, d, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has to be booked
		if _, err := l.Reserve(ctx, 30); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Peek(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Participants(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.SetLimit(ctx, shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 2}); err != nil {
		t.Fatal(err)
	}
	if err := l.Reset(ctx); err != nil {
		t.Fatal(err)
	}
	p.server[0].Kill()
	away := func() bool { return p.client.Ping(ctx)[0].Err != nil }
	await(t, "a node is away", away)
	p.server[0].Restart()
	await(t, "it is back", func() bool { return !away() })
	if err := l.Delete(ctx); err != nil {
		t.Fatal(err)
	}
	span.End()
	timed, spans := p.timed(t), map[string]bool{}
	for _, s := range p.scripts() {
		spans[attributes(s)["db.stored_procedure.name"]] = s.Parent().SpanID() == span.SpanContext().SpanID()
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

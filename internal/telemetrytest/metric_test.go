package telemetrytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestDecisionsAndPermitsAreCountedByOutcomeAndSource(t *testing.T) {
	p := newProbe(t, 1, func(c *shardlimit.Config) { c.OnOutage = shardlimit.FailOpen })
	ctx := t.Context()
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(5))
	for _, n := range []int64{1, 1, 3} {
		limittest.MustGet(t, l, n)
	}
	for range 4 { // this process knows that nothing is left
		limittest.Refuses(t, l)
	}
	taken := limittest.Limiter(t, p.other, "taken", shardlimit.PerHour(2))
	limittest.MustGet(t, taken, 2)
	limittest.Refuses(t, limittest.Limiter(t, p.client, "taken", shardlimit.PerHour(2)))
	leased := limittest.Limiter(t, p.client, "leased",
		shardlimit.Limit{Permits: 1e6, Per: time.Hour, Lease: time.Minute, Shards: 1})
	for range 100 {
		limittest.MustGet(t, leased, 1)
	}
	watched := limittest.Limiter(t, p.client, "watched",
		shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Shadow})
	off := limittest.Limiter(t, p.client, "off", shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Off})
	for range 3 {
		if d, err := watched.AllowN(ctx, 2); err != nil || !d.Shadowed {
			t.Fatalf("%+v, %v", d, err)
		}
		limittest.MustGet(t, off, 2)
	}
	away := limittest.Limiter(t, p.client, "away", shardlimit.PerHour(5))
	p.posts[0].Server.Kill()
	for range 2 {
		if d, err := away.AllowN(ctx, 2); err != nil || !d.Degraded {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	p.client.Close()

	const algorithm = "algorithm=sliding_log,"
	p.tells(t, "ratelimit.decisions", map[string]float64{
		algorithm + "limiter=l,outcome=allowed,source=redis":                3,
		algorithm + "limiter=l,outcome=denied,reason=full,source=memory":    4,
		algorithm + "limiter=taken,outcome=denied,reason=full,source=redis": 1,
		algorithm + "limiter=away,outcome=degraded,source=local":            2,
		algorithm + "limiter=watched,outcome=shadowed,source=local":         3,
		algorithm + "limiter=off,outcome=allowed,source=local":              3,
	})
	decisions := points(p.metrics(t)["ratelimit.decisions"])
	fromRedis := decisions[algorithm+"limiter=leased,outcome=allowed,source=redis"].value
	fromLease := decisions[algorithm+"limiter=leased,outcome=allowed,source=lease"].value
	if fromRedis+fromLease != 100 || fromLease < 50 {
		t.Errorf("leased decisions: %v from Redis, %v from leases", fromRedis, fromLease)
	}
	p.tells(t, "ratelimit.permits", map[string]float64{
		"limiter=l,outcome=granted":        5,
		"limiter=l,outcome=denied":         4,
		"limiter=taken,outcome=denied":     1,
		"limiter=away,outcome=degraded":    4,
		"limiter=watched,outcome=shadowed": 6,
		"limiter=leased,outcome=granted":   100,
	})
	if got := p.value(t, "ratelimit.decision.duration", "limiter=l,outcome=allowed"); got.count != 3 ||
		got.value <= 0 || got.value > 60 {
		t.Errorf("decision.duration: %+v", got)
	}
}

// A caller that left is no outage, and what it asked for was refused by nobody.
func TestACallerThatLeftIsNoError(t *testing.T) {
	p := newProbe(t, 1)
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(5))
	limittest.MustGet(t, l, 1)
	p.posts[0].Server.Pause()
	const canceled = "algorithm=sliding_log,limiter=l,outcome=canceled,source=redis"
	limittest.AwaitThat(t, "a call of a caller that left is counted", func() bool { // unless it left before it asked
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, leave)
		if _, err := l.Allow(gone); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return p.value(t, "ratelimit.decisions", canceled).value > 0
	})
	for attributes := range points(p.metrics(t)["ratelimit.decisions"]) {
		if strings.Contains(attributes, "error") {
			t.Errorf("there is %s", attributes)
		}
	}
}

func TestBatchesAndScriptCallsAreMeasured(t *testing.T) {
	p := newProbe(t, 2)
	l := limittest.Limiter(t, p.client, "l", shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
	limittest.MustGet(t, l, 1000) // two script calls and more
	n0 := p.value(t, "ratelimit.script.duration", "node=n0,operation=take,outcome=ok")
	n1 := p.value(t, "ratelimit.script.duration", "node=n1,operation=take,outcome=ok")
	if n0.count != 1 || n1.count != 1 || n0.value <= 0 || n1.value <= 0 {
		t.Errorf("script.duration: %+v, %+v", n0, n1)
	}
	if got := p.value(t, "ratelimit.batch.size", "limiter=l"); got.count != 2 || got.value != 2 {
		t.Errorf("batch.size: %+v", got)
	}
	p = newProbe(t, 1) // its node, whose distance nobody knows yet
	single := limittest.Limiter(t, p.client, "single", shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 1})
	limittest.MustGet(t, single, 1)
	batched(t, p, single, 7, func() context.Context { return t.Context() })
	if got := p.value(t, "ratelimit.batch.size", "limiter=single"); got.count != 3 || got.value != 9 {
		t.Errorf("batch.size after 1, 1 and 7 calls: %+v", got)
	}
}

// batched has n calls made in one script call, behind one that holds them up.
func batched(t *testing.T, p *probe, l *shardlimit.Limiter, n int, caller func() context.Context) {
	t.Helper()
	p.stall(true)
	ended := make(chan error, n+1)
	call := func(ctx context.Context) { _, err := l.Allow(ctx); ended <- err }
	sent := p.sent()
	go call(t.Context())
	limittest.AwaitThat(t, "one call is under way", func() bool { return p.sent() > sent })
	for range n {
		go call(caller())
	}
	limittest.AwaitThat(t, "the others wait", func() bool { return asking() == n+1 })
	p.stall(false)
	for range n + 1 {
		limittest.Must(t, <-ended)
	}
}

func TestPermitsOfLostRepliesAreCountedAsUnknown(t *testing.T) {
	// half of it for each shard: more than a machine stalls
	p := newProbe(t, 2, func(c *shardlimit.Config) { c.CallTimeout = 5 * time.Second })
	l := limittest.Limiter(t, p.client, "l", shardlimit.Limit{Permits: 1000, Per: time.Hour, Shards: 2})
	d := limittest.MustGet(t, l, 1000)
	limittest.Must(t, l.Settle(t.Context(), d, 0))
	for _, x := range p.posts {
		x.Proxy.DropReplies(true)
	}
	if _, err := l.AllowN(t.Context(), 5); err == nil { // asked of both
		t.Fatal("a call succeeded without an answer")
	}
	limittest.AwaitThat(t, "5 permits at each of the shards are unknown", func() bool {
		return p.value(t, "ratelimit.permits.unknown", "limiter=l").value == 10
	})
	for _, node := range []string{"n0", "n1"} {
		limittest.AwaitThat(t, "the lost call is timed as an error of "+node, func() bool {
			return p.value(t, "ratelimit.script.duration", "node="+node+",operation=take,outcome=error").count == 1
		})
	}
}

func TestWaitersAndTheirTimeAreMeasured(t *testing.T) {
	p := newProbe(t, 1)
	l := limittest.Limiter(t, p.client, "l", shardlimit.PerHour(1))
	limittest.MustGet(t, l, 1)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 2)
	for range cap(left) {
		go func() { left <- l.Wait(ctx) }()
	}
	limittest.AwaitThat(t, "both wait", func() bool { return p.value(t, "ratelimit.waiters", "limiter=l").value == 2 })
	leave()
	for range cap(left) {
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter left with %v", err)
		}
	}
	p.tells(t, "ratelimit.waiters", map[string]float64{"limiter=l": 0})
	if got := p.value(t, "ratelimit.wait.duration", "limiter=l,outcome=canceled"); got.count != 2 || got.value <= 0 {
		t.Errorf("wait.duration: %+v", got)
	}
	limittest.Must(t, limittest.Limiter(t, p.client, "free", shardlimit.PerHour(1)).Wait(t.Context()))
	if got := p.value(t, "ratelimit.wait.duration", "limiter=free,outcome=allowed"); got.count != 1 {
		t.Errorf("wait.duration of a call that was served: %+v", got)
	}
}

func TestShardsTellWhatIsLeftAndWhetherTheirNodeAnswers(t *testing.T) {
	p := newProbe(t, 2)
	l := limittest.Limiter(t, p.client, "l", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
	if d, err := l.AllowUpTo(t.Context(), 60); err != nil || d.Granted != 60 {
		t.Fatalf("%+v, %v", d, err)
	}
	// A limit of each participant is not one of all together, so it is not told as such: what all
	// of them use of it would be more than there is.
	limittest.Limiter(t, p.client, "each", limittest.PerParticipant(5, time.Hour))
	st := limittest.Peek(t, l)
	attributes := func(s shardlimit.ShardState) string { return "limiter=l,node=" + s.Node + ",shard=" + s.Tag }
	for _, s := range st.Shards {
		p.tells(t, "ratelimit.shard.remaining", map[string]float64{attributes(s): float64(s.Free)})
		p.tells(t, "ratelimit.shard.available", map[string]float64{attributes(s): 1})
	}
	for name, want := range map[string]float64{"ratelimit.limit": 100, "ratelimit.limit.window": 3600} {
		if told := points(p.metrics(t)[name]); len(told) != 1 || told["limiter=l"].value != want {
			t.Errorf("%s is told of %v, want %v of l alone", name, told, want)
		}
	}
	down := st.Shards[0]
	p.posts[int(down.Node[1]-'0')].Server.Kill()
	limittest.AwaitThat(t, "the shard of the node that is gone is not available", func() bool {
		_, _ = l.Allow(t.Context())
		_, _ = l.AllowN(t.Context(), 40)
		got, ok := points(p.metrics(t)["ratelimit.shard.available"])[attributes(down)]
		return ok && got.value == 0
	})
	p.tells(t, "ratelimit.shard.available", map[string]float64{attributes(st.Shards[1]): 1})
	p.posts[int(down.Node[1]-'0')].Server.Restart()
	limittest.AwaitThat(t, "it is available again", func() bool {
		_, _ = l.Allow(t.Context()) // a call has the node looked at
		return p.value(t, "ratelimit.shard.available", attributes(down)).value == 1
	})
}

// Names from outside are never attributes: there may be millions of them.
func TestNoParticipantAndNoKeyBecomesAnAttribute(t *testing.T) {
	p := newProbe(t, 1)
	const secret = "user-that-must-not-be-told"
	f := limittest.Family(t, p.client, "users", shardlimit.PerHour(2))
	ctx, span := p.traces.Tracer("test").Start(t.Context(), "request")
	for range 4 {
		_, err := f.Limiter(secret).Allow(ctx)
		limittest.Must(t, err)
	}
	_ = f.Limiter(secret).Wait(limittest.Shortly(t, time.Millisecond))
	_ = limittest.Limiter(t, p.client, "l", shardlimit.PerHour(2)).Wait(ctx)
	span.End()
	p.tells(t, "ratelimit.decisions",
		map[string]float64{"algorithm=sliding_log,limiter=users,outcome=allowed,source=redis": 2})
	all := p.metrics(t)
	documented(t, all)
	for name, m := range all {
		for attributes := range points(m) {
			if strings.Contains(attributes, secret) || strings.Contains(attributes, participant) {
				t.Errorf("%s{%s}", name, attributes)
			}
		}
	}
	for _, s := range p.spans.Ended() {
		for _, a := range s.Attributes() {
			if text := a.Value.String(); strings.Contains(text, secret) || strings.Contains(text, participant) {
				t.Errorf("span %s: %s=%s", s.Name(), a.Key, text)
			}
		}
	}
}

func TestEveryMetricIsDocumented(t *testing.T) {
	p := newProbe(t, 1)
	_ = limittest.Limiter(t, p.client, "l", shardlimit.PerHour(1)).Wait(t.Context())
	all := p.metrics(t)
	if documented(t, all); len(all) < 11 {
		t.Errorf("%d metrics", len(all))
	}
}

// documented checks that docs/reference/metrics.md has the metrics: the kind, seconds and
// attributes of each, and all operations.
func documented(t *testing.T, all map[string]metricdata.Metrics) {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	limittest.Must(t, err)
	for name, m := range all {
		kind, _, _ := strings.Cut(fmt.Sprintf("%T", m.Data), "[") // of numbers
		row := "| `" + name + "` | " + map[string]string{"metricdata.Sum": "counter", "metricdata.Gauge": "gauge",
			"metricdata.Histogram": "histogram"}[kind] + map[bool]string{true: ", s"}[m.Unit == "s"] + " | "
		_, rest, found := strings.Cut(string(text), row)
		attributes, _, _ := strings.Cut(rest, "|")
		if !found || m.Description == "" || strings.Trim(m.Unit, "{}s") == m.Unit && m.Unit != "" {
			t.Errorf("the document has no %s, or it is told as %q in %q", row, m.Description, m.Unit)
		}
		for told := range points(m) {
			for pair := range strings.SplitSeq(told, ",") {
				if key, _, _ := strings.Cut(pair, "="); !strings.Contains(attributes, key) {
					t.Errorf("%s has the attribute %s, the document has %s", name, pair, attributes)
				}
			}
		}
	}
	for _, op := range operations() {
		if !strings.Contains(string(text), "`"+op+"`") {
			t.Errorf("the document has no operation %s", op)
		}
	}
}

func TestADenialFromMemoryAllocatesNothing(t *testing.T) {
	for name, providers := range map[string]struct {
		meter  metric.MeterProvider
		tracer trace.TracerProvider
	}{
		"no telemetry":  {},
		"telemetry off": {metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider()},
		"metrics on": {sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
			tracenoop.NewTracerProvider()},
		"metrics on, global tracer": {sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
			nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := limittest.Standalone(t).Limiter(t, shardlimit.PerHour(1), func(c *shardlimit.Config) {
				c.MeterProvider, c.TracerProvider = providers.meter, providers.tracer
			})
			ctx := t.Context()
			limittest.MustGet(t, l, 1)
			allocations := testing.AllocsPerRun(1000, func() {
				if d, err := l.Allow(ctx); err != nil || d.Allowed {
					t.Errorf("%+v, %v", d, err)
				}
			})
			if allocations != 0 {
				t.Errorf("%v allocations per denial", allocations)
			}
		})
	}
}

// What was granted, came back and was charged adds up to what is used: of settlements, of a Set
// that another limit refused, and of a limit that this process counts.
func TestPermitsAddUp(t *testing.T) {
	p := newProbe(t, 1)
	ctx := t.Context()
	a := limittest.Limiter(t, p.client, "a", shardlimit.PerHour(100))
	own := limittest.Limiter(t, p.client, "own",
		shardlimit.Limit{Permits: 100, Per: time.Hour, Scope: shardlimit.PerParticipant})
	for _, l := range []*shardlimit.Limiter{a, own} {
		for _, used := range []int64{3, 12, 10, 0} {
			d, err := l.AllowN(ctx, 10)
			if err == nil && used != 10 {
				err = l.Settle(ctx, d, used)
			}
			if err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
	}
	elsewhere := limittest.Limiter(t, p.other, "b", shardlimit.PerHour(1))
	b := limittest.Limiter(t, p.client, "b", shardlimit.PerHour(1))
	limittest.MustGet(t, elsewhere, 1)
	limittest.Refuses(t, shardlimit.All(a.N(5), own.N(6), b.N(1)))
	p.tells(t, "ratelimit.permits", map[string]float64{
		"limiter=a,outcome=granted": 45, "limiter=a,outcome=returned": 22, "limiter=a,outcome=charged": 2,
		"limiter=own,outcome=granted": 46, "limiter=own,outcome=returned": 23, "limiter=own,outcome=charged": 2,
	})
	limittest.Uses(t, a, 25)
}

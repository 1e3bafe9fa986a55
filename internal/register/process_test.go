package register

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/membership"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// process is a limit in a process of its own, that has nothing but the register.
type process struct {
	env      *Env
	declared Wanted
	layout   atomic.Pointer[shard.Layout]
	register *Register
}

// newRedis is a server that processes reach by served.
func newRedis() *miniredis.Miniredis {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	return redis
}

// served is a node on a server.
func served(name string, redis *miniredis.Miniredis) node.Spec {
	dial := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() }
	return node.Spec{Name: name, Weight: 1, Option: rueidis.ClientOption{InitAddress: []string{name + ":1"},
		ForceSingleClient: true, DialCtxFn: dial}}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// processOn is a process that has joined a limit on a server.
func processOn(t *testing.T, redis *miniredis.Miniredis, declared Wanted) *process {
	t.Helper()
	p := listing(t, declared, served("n", redis))
	if err := p.register.Join(t.Context()); err != nil || p.Layout() == nil {
		t.Fatalf("%+v, %v", p.Layout(), err)
	}
	return p
}

// listing is a process with these nodes that has not asked them for anything.
func listing(tb testing.TB, declared Wanted, nodes ...node.Spec) *process {
	tb.Helper()
	s := node.Settings{Ctx: tb.Context(), Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: time.Second, Back: func() {}, Spawn: func(func(context.Context)) bool { return false }}
	var err error
	s.Telemetry, err = telemetry.New(s.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(), nil)
	must(tb, err)
	fleet := node.NewFleet(s, nodes)
	tb.Cleanup(fleet.Close)
	book := record.NewBook(fleet, "p")
	p := &process{declared: declared, env: &Env{Nodes: fleet, Closed: new(atomic.Bool), Book: book, Takeover: true,
		Fence: membership.New(&membership.Env{Nodes: fleet, Book: book, After: time.Second, Changed: func() {}})}}
	p.register = New(p.env, Subject{Limit: p, Shards: p, Name: "l", ID: "n:l",
		Metrics: telemetry.NewLimiter("l", "sliding_log")})
	return p
}

// wanted is a sliding log of so many permits a second.
func wanted(permits int64, shards int) Wanted {
	return Wanted{Spec: shard.Spec{Permits: permits, Window: time.Second, Algorithm: "sliding_log"}, Shards: shards}
}

// believes reports whether the layout may be relied on.
func (p *process) believes() bool {
	return p.register.Believed(p.Layout().Epoch, p.env.Nodes.Clock.Elapsed()) != 0
}

func (p *process) Wanted() Wanted { return p.declared }

// propose stores a layout of the limit as somebody asks for it, and tells no shard.
func (p *process) propose(t *testing.T, want Wanted) *shard.Layout {
	t.Helper()
	next, err := p.register.propose(t.Context(), func(old shard.Layout) (maker, error) {
		return p.register.become(t.Context(), want, old), nil
	})
	must(t, err)
	return next
}

func (p *process) Layout() *shard.Layout { return p.layout.Load() }

func (p *process) Adopt(l shard.Layout) error {
	if old := p.layout.Load(); old == nil || old.Epoch < l.Epoch || old.Epoch == l.Epoch && !old.Settled {
		p.layout.Store(&l)
	}
	return nil
}

func (p *process) Propose(ctx context.Context, o *Offer) (reply script.TakeReply, err error) {
	proposal, err := script.Terms{Epoch: o.Layout.Epoch, Target: o.Shard.Share, Floor: o.Floor,
		Window: o.Layout.Window, Keep: StateKeep}.Proposal()
	if err != nil {
		return reply, err
	}
	err = p.ask(ctx, o.Shard, func(ctx context.Context, e *script.Endpoint, ref script.ShardRef) (err error) {
		reply, err = e.Take(ctx, ref, &script.TakeRequest{Proposal: proposal})
		return err
	})
	return reply, err
}

// epochAt is the epoch that a shard obeys.
func (p *process) epochAt(t *testing.T, s shard.Shard) (epoch int64) {
	t.Helper()
	must(t, p.ask(t.Context(), s, func(ctx context.Context, e *script.Endpoint, ref script.ShardRef) error {
		r, err := e.Peek(ctx, ref)
		epoch = r.Epoch
		return err
	}))
	return epoch
}

func (p *process) ask(ctx context.Context, s shard.Shard,
	do func(context.Context, *script.Endpoint, script.ShardRef) error) error {
	ctx, call, err := p.env.Nodes.Node(s.Node).Begin(ctx, s.Slot,
		telemetry.Call{Operation: telemetry.Propose, Limiter: p.register.Metrics}, nil)
	if err != nil {
		return err
	}
	err = do(ctx, call.Scripts, script.ShardKeys("", shard.Tag(s.Slot), "n:l"))
	call.Finish(ctx, err)
	return err
}

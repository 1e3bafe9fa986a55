package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/gateway"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

// gatewayTurn is one variant that has Redis and a web server to itself.
type gatewayTurn struct {
	*gatewayRun
	variant string
	denied  bool
	names   []string // of the keys
	web     *gateway.Process
	conns   []*gateway.Conn
}

// turn plays a turn and leaves Redis empty.
func (run *gatewayRun) turn(ctx context.Context, variant string, limit rival.Limit,
	play func(*gatewayTurn) error) error {
	web, err := gateway.Start(ctx, gateway.Job{Variant: variant, Redis: run.server.Addr(), Permits: limit.Permits,
		Per: limit.Per})
	if err != nil {
		return err
	}
	t := &gatewayTurn{gatewayRun: run, variant: variant, denied: limit == gatewayUsedUp, names: run.names, web: web}
	if t.denied {
		t.names = t.names[:1]
	}
	for range max(run.workers, keysFillers) {
		t.conns = append(t.conns, gateway.NewConn(web.Addr()))
	}
	if err = t.fill(ctx); err == nil {
		err = play(t)
	}
	for _, c := range t.conns {
		c.Close()
	}
	web.Close()
	admin := run.server.Admin()
	return errors.Join(err, admin.Do(ctx, admin.B().Flushall().Sync().Build()).Error())
}

// refuses tells whether the variant refuses requests in this turn.
func (t *gatewayTurn) refuses() bool {
	return t.variant == gateway.Refuse || t.denied && t.variant != gateway.None
}

// fill makes a request with each key, and the one that is denied once more.
func (t *gatewayTurn) fill(ctx context.Context) error {
	free := make(chan *gateway.Conn, keysFillers)
	for _, c := range t.conns[:keysFillers] {
		free <- c
	}
	allow := func(ctx context.Context, key string) (bool, error) {
		c := <-free
		defer func() { free <- c }()
		return c.Allow(ctx, key)
	}
	if t.variant != gateway.Refuse {
		if err := callOnce(ctx, allow, t.names[:1], true); err != nil { // the server shall know the script
			return fmt.Errorf("first request: %w", err)
		}
	}
	names := t.names[1:]
	if t.denied {
		names = t.names
	}
	if err := callOnce(ctx, allow, names, !t.refuses()); err != nil {
		return fmt.Errorf("a request with each key: %w", err)
	}
	return nil
}

// wrong remarks answers that should have been others.
func (t *gatewayTurn) wrong(s load.Sample) {
	wrong, what := s.Denied, "denied"
	if t.refuses() {
		wrong, what = s.Allowed, "allowed"
	}
	if wrong > 0 {
		t.result.Remark("%s %s %s of %s requests.", t.variant, what, report.Count(float64(wrong)),
			report.Count(float64(s.Decisions())))
	}
}

// full has so many connections make requests as fast as they are answered.
func (t *gatewayTurn) full(ctx context.Context, seed uint64, conns int) (map[string]float64, error) {
	var (
		counts        atomic.Bool
		times         = load.NewLatencies()
		before, after time.Duration
		draws         = newDraws(len(t.names), false, seed)
	)
	runtime.GC() // the garbage of others is not to be collected in this turn
	plan := load.Plan{Goroutines: conns, Warm: t.span / 4, For: t.span,
		Before: func() (err error) { counts.Store(true); before, err = t.web.CPU(); return err },
		After:  func() (err error) { counts.Store(false); after, err = t.web.CPU(); return err }}
	r, err := observe(ctx, t.server, plan, func(caller int) func(context.Context) (bool, error) {
		next := draws.of(caller, conns)
		return func(ctx context.Context) (bool, error) {
			began := time.Now()
			ok, err := t.conns[caller].Allow(ctx, t.names[next()])
			if err == nil && counts.Load() {
				times.Add(caller, time.Since(began))
			}
			return ok, err
		}
	})
	if errors.Is(err, errIdle) { // one that is so slow costs the others nothing
		t.result.Remark("%s with %d connections: %v.", t.variant, conns, err)
	}
	if err != nil {
		return nil, err
	}
	t.wrong(r.sample)
	n, at := float64(r.sample.Decisions()), times.Percentiles(50, 99)
	figures := map[string]float64{
		"rate": r.sample.PerSecond(), "cpu": float64((after - before).Nanoseconds()) / 1e3 / n,
		"redis-cpu": r.server.CPU * 1e6 / n, "calls": float64(r.server.Scripts) / n,
		"p50": micros(at[0]), "p99": micros(at[1]),
	}
	t.failures(figures, r.sample.Failed, n, r.sample.Err)
	return figures, nil
}

// failures notes how many requests failed, if any did.
func (t *gatewayTurn) failures(figures map[string]float64, failed int64, answered float64, err error) {
	if failed > 0 {
		figures["failed"] = 100 * float64(failed) / (answered + float64(failed))
		t.result.Remark("%s failed %d requests, for example: %v.", t.variant, failed, err)
	}
}

// paced has requests come at the pace of half load, whether or not earlier ones were answered.
func (t *gatewayTurn) paced(ctx context.Context, seed uint64) (map[string]float64, error) {
	runtime.GC() // as in full
	before, err := t.web.CPU()
	if err != nil {
		return nil, err
	}
	s, open, times, err := t.offer(ctx, newDraws(len(t.names), false, seed))
	if err != nil {
		return nil, err
	}
	after, err := t.web.CPU()
	if err != nil {
		return nil, err
	}
	t.wrong(s)
	if s.Decisions() == 0 {
		t.result.Remark("%s answered nothing at half load: %v.", t.variant, s.Err)
		return nil, errIdle
	}
	if open.Unsent > 0 {
		t.result.Remark("%s could not keep the pace of half load: %d of %d requests were not made.", t.variant,
			open.Unsent, open.Unsent+open.Sent)
	}
	n, at := float64(s.Decisions()), times.Percentiles(50, 99)
	figures := map[string]float64{"cpu": float64((after - before).Nanoseconds()) / 1e3 / n, "p50": micros(at[0]),
		"p99": micros(at[1])}
	t.failures(figures, s.Failed, n, s.Err)
	return figures, nil
}

// offer makes requests when they are due. The latency is that of requests which are due after the
// warm-up.
func (t *gatewayTurn) offer(ctx context.Context, draws draws) (s load.Sample, open load.OpenSample,
	times *load.Latencies, err error) {
	var mu sync.Mutex
	next := make([]func() int, t.workers)
	for i := range next {
		next[i] = draws.of(i, t.workers)
	}
	times = load.NewLatencies()
	counted := time.Now().Add(t.span / 4)
	plan := load.OpenPlan{Arrivals: load.Even(t.pace, 1), For: t.span/4 + t.span, Workers: t.workers}
	open, err = load.Open(ctx, plan, func(ctx context.Context, d load.Due) {
		ok, err := t.conns[d.Worker].Allow(ctx, t.names[next[d.Worker]()])
		if err == nil && d.At.After(counted) {
			times.Add(d.Worker, time.Since(d.At))
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			s.Failed, s.Err = s.Failed+1, err
		case ok:
			s.Allowed++
		default:
			s.Denied++
		}
	})
	return s, open, times, err
}

package scenario

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit/bench/internal/envoy"
	"github.com/shardlimit/shardlimit/bench/internal/load"
)

// envoyTurn is one service that has Redis to itself.
type envoyTurn struct {
	*envoyRun
	name    string
	service *envoy.Process
	callers *envoy.Callers
}

// turn plays a turn and leaves Redis empty.
func (run *envoyRun) turn(ctx context.Context, k envoy.Kind, play func(*envoyTurn) error) error {
	service, err := k.Start(ctx, envoy.Job{Redis: run.server.Addr(), Config: envoyConfig}, envoy.Probe)
	if err != nil {
		return err
	}
	defer service.Close()
	callers, err := envoy.Dial(service.Addr(), envoyConns)
	if err != nil {
		return err
	}
	defer callers.Close()
	for conn := range envoyConns { // which is connected then
		if _, err := callers.Allow(ctx, conn, run.requests[0]); err != nil {
			return err
		}
	}
	err = play(&envoyTurn{envoyRun: run, name: k.Name, service: service, callers: callers})
	return errors.Join(err, run.server.Flush(ctx))
}

// choice is what a caller asks for next.
type choice func(caller int) func() *rls.RateLimitRequest

// always asks for the same.
func always(r *rls.RateLimitRequest) choice {
	return func(int) func() *rls.RateLimitRequest { return func() *rls.RateLimitRequest { return r } }
}

// random draws descriptors, the same ones for the same seed.
func (run *envoyRun) random(seed uint64) choice {
	draws := newDraws(len(run.requests), false, seed)
	return func(caller int) func() *rls.RateLimitRequest {
		next := draws.of(caller, envoyCallers)
		return func() *rls.RateLimitRequest { return run.requests[next()] }
	}
}

// columns measures all that there is of a round.
func (t *envoyTurn) columns(ctx context.Context, seed uint64) error {
	for _, c := range []struct {
		column  int
		measure func() (map[string]float64, error)
	}{
		{envoyOne, func() (map[string]float64, error) { return t.full(ctx, always(t.requests[0])) }},
		{envoyMany, func() (map[string]float64, error) { return t.full(ctx, t.random(seed)) }},
		{envoyDenied, func() (map[string]float64, error) { return t.full(ctx, always(t.spent)) }},
		{envoyHalf, func() (map[string]float64, error) { return t.paced(ctx, t.random(seed+1)) }},
	} {
		figures, err := c.measure()
		if errors.Is(err, errIdle) {
			t.result.Remark("%s, column %d: %v.", t.name, c.column, err)
			continue
		}
		if err != nil {
			return err
		}
		for _, metric := range slices.Sorted(maps.Keys(figures)) {
			t.found.add(t.name, float64(c.column), metric, figures[metric])
		}
	}
	return nil
}

// full has all callers call as fast as they are answered.
func (t *envoyTurn) full(ctx context.Context, choose choice) (map[string]float64, error) {
	var (
		counts        atomic.Bool
		times         = load.NewLatencies()
		before, after time.Duration
	)
	runtime.GC() // the garbage of others is not to be collected in this turn
	plan := load.Plan{Goroutines: envoyCallers, Warm: t.span / 4, For: t.span,
		Before: func() (err error) { counts.Store(true); before, err = t.service.CPU(); return err },
		After:  func() (err error) { counts.Store(false); after, err = t.service.CPU(); return err }}
	r, err := observe(ctx, t.server, plan, func(caller int) func(context.Context) (bool, error) {
		next := choose(caller)
		return func(ctx context.Context) (bool, error) {
			began := time.Now()
			ok, err := t.callers.Allow(ctx, caller, next())
			if err == nil && counts.Load() {
				times.Add(caller, time.Since(began))
			}
			return ok, err
		}
	})
	if err != nil {
		return nil, err
	}
	n, at := float64(r.sample.Decisions()), times.Percentiles(50, 99)
	figures := map[string]float64{
		"rate": r.sample.PerSecond(), "cpu": float64((after - before).Nanoseconds()) / 1e3 / n,
		"redis-cpu": r.server.CPU * 1e6 / n, "p50": micros(at[0]), "p99": micros(at[1]),
	}
	t.failures(figures, r.sample, n)
	return figures, nil
}

// paced has calls come at the pace of half load, whether or not earlier ones were answered.
func (t *envoyTurn) paced(ctx context.Context, choose choice) (map[string]float64, error) {
	var (
		mu     sync.Mutex
		sample load.Sample
		times  = load.NewLatencies()
		next   = make([]func() *rls.RateLimitRequest, envoyCallers)
	)
	for i := range next {
		next[i] = choose(i)
	}
	runtime.GC()
	before, err := t.service.CPU()
	if err != nil {
		return nil, err
	}
	counted := time.Now().Add(t.span / 4)
	plan := load.OpenPlan{Arrivals: load.Even(t.pace, 1), For: t.span/4 + t.span, Workers: envoyCallers}
	open, err := load.Open(ctx, plan, func(ctx context.Context, d load.Due) {
		_, err := t.callers.Allow(ctx, d.Worker, next[d.Worker]())
		if err == nil && d.At.After(counted) {
			times.Add(d.Worker, time.Since(d.At))
		}
		mu.Lock()
		defer mu.Unlock()
		if sample.Allowed++; err != nil {
			sample.Allowed, sample.Failed, sample.Err = sample.Allowed-1, sample.Failed+1, err
		}
	})
	if err != nil {
		return nil, err
	}
	after, err := t.service.CPU()
	if err != nil {
		return nil, err
	}
	if sample.Allowed == 0 {
		return nil, errIdle
	}
	if open.Unsent > 0 {
		t.result.Remark("%s could not keep the pace of half load: %d of %d calls were not made.", t.name, open.Unsent,
			open.Unsent+open.Sent)
	}
	n, at := float64(sample.Allowed), times.Percentiles(50, 99)
	figures := map[string]float64{"cpu": float64((after - before).Nanoseconds()) / 1e3 / n, "p50": micros(at[0]),
		"p99": micros(at[1])}
	t.failures(figures, sample, n)
	return figures, nil
}

// failures notes how many calls failed, if any did.
func (t *envoyTurn) failures(figures map[string]float64, s load.Sample, answered float64) {
	if s.Failed > 0 {
		figures["failed"] = 100 * float64(s.Failed) / (answered + float64(s.Failed))
		t.result.Remark("%s failed %d calls, for example: %v.", t.name, s.Failed, s.Err)
	}
}

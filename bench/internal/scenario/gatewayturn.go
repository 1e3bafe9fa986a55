package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/web"
)

// gatewayTurn is one door in one round.
type gatewayTurn struct {
	*gatewayRun
	door door
	seed uint64

	conns []*web.Conn
}

// gatewayLoad is what a door let through under load.
type gatewayLoad struct {
	name string
	rate float64 // requests a second
	cpu  float64 // us a request
}

// with has the door opened in front of a handler, and leaves the server empty. use has a
// connection for each of its workers.
func (t *gatewayTurn) with(ctx context.Context, use func() error) error {
	wrap, end, err := t.door.open(ctx, t.server.Addr(), t.door.limit())
	if err != nil {
		return err
	}
	defer end()
	web200 := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	s, err := web.Serve(wrap(web200))
	if err != nil {
		return err
	}
	defer s.Close()
	for range gatewayConns {
		c, err := web.Dial(ctx, s.Addr())
		if err != nil {
			return err
		}
		defer c.Close()
		t.conns = append(t.conns, c)
	}
	if err := t.warmUp(); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	runtime.GC() // the garbage of others is not to be collected in this turn
	err = use()
	admin := t.server.Admin()
	return errors.Join(err, admin.Do(ctx, admin.B().Flushall().Sync().Build()).Error())
}

// warmUp calls every key once, over all connections.
func (t *gatewayTurn) warmUp() error {
	keys := t.keys
	if t.door.denied {
		keys = keys[:1]
	}
	errs := make([]error, len(t.conns))
	var wg sync.WaitGroup
	for i, c := range t.conns {
		wg.Go(func() {
			for k := i; k < len(keys) && errs[i] == nil; k += len(t.conns) {
				_, errs[i] = c.Get(keys[k])
			}
			if i >= len(keys) && errs[i] == nil {
				_, errs[i] = c.Get(keys[0])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// key draws the key of a request.
func (t *gatewayTurn) key(draw *rand.Rand) string {
	if t.door.denied {
		return t.keys[0]
	}
	return t.keys[draw.IntN(len(t.keys))]
}

// request makes one, and reports whether the limiter let it pass.
func (t *gatewayTurn) request(conn int, draw *rand.Rand) (bool, error) {
	status, err := t.conns[conn].Get(t.key(draw))
	if err == nil && status != http.StatusOK && status != http.StatusTooManyRequests {
		err = fmt.Errorf("status %d", status)
	}
	return status == http.StatusOK, err
}

func (t *gatewayTurn) draw(worker int) *rand.Rand {
	return rand.New(rand.NewPCG(t.seed, uint64(worker))) //nolint:gosec // a draw that every door has alike
}

// underLoad lets every connection ask as fast as it is answered.
func (t *gatewayTurn) underLoad(ctx context.Context) (l *gatewayLoad, err error) {
	err = t.with(ctx, func() error {
		plan := load.Plan{Goroutines: gatewayConns, Warm: t.span / 4, For: t.span}
		r, err := observe(ctx, t.server, plan, func(worker int) func(context.Context) (bool, error) {
			draw := t.draw(worker)
			return func(context.Context) (bool, error) { return t.request(worker, draw) }
		})
		if err != nil {
			return err
		}
		n := float64(r.sample.Decisions())
		l = &gatewayLoad{t.door.name, r.sample.PerSecond(), r.sample.CPUMicros()}
		t.add("rate", l.rate)
		t.add("cpu", l.cpu)
		t.add("server-cpu", r.server.CPU*1e6/n)
		if failed := float64(r.sample.Failed); failed > 0 {
			t.add("failed", 100*failed/(n+failed))
			t.result.Remark("%s failed %d requests, for example: %v.", t.door.name, r.sample.Failed, r.sample.Err)
		}
		if wrong := r.sample.Denied; !t.door.denied && wrong > 0 || t.door.denied && r.sample.Allowed > 0 {
			t.result.Remark("%s allowed %d requests and denied %d.", t.door.name, r.sample.Allowed, wrong)
		}
		return nil
	})
	return l, err
}

// atPace has requests arrive at random, so many a second, and returns the 99th percentile of their
// latency in us.
func (t *gatewayTurn) atPace(ctx context.Context, rate float64) (p99 float64, err error) {
	err = t.with(ctx, func() error {
		times, draws := load.NewLatencies(), make([]*rand.Rand, gatewayConns)
		for i := range draws {
			draws[i] = t.draw(i)
		}
		var failed atomic.Int64
		plan := load.OpenPlan{Arrivals: load.Poisson(rate, load.Zipf(1, 0), t.seed), For: t.span, Workers: gatewayConns}
		sample, err := load.Open(ctx, plan, func(_ context.Context, d load.Due) {
			if ok, err := t.request(d.Worker, draws[d.Worker]); err != nil || !ok {
				failed.Add(1)
			}
			times.Add(d.Worker, time.Since(d.At))
		})
		if err != nil {
			return err
		}
		at := times.Percentiles(50, 99)
		p99 = micros(at[1])
		t.add("p50", micros(at[0]))
		t.add("p99", p99)
		if lost := failed.Load() + sample.Unsent; lost > 0 {
			t.result.Remark("%s left %d of %d requests undone at half load.", t.door.name, lost,
				sample.Sent+sample.Unsent)
		}
		return nil
	})
	return p99, err
}

func (t *gatewayTurn) add(metric string, value float64) {
	t.found.add(t.door.label(), t.door.column(), metric, value)
}

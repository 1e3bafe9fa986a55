package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/stat"
)

var stall = Scenario{
	Name:  "stall",
	Title: "latency while a node stalls",
	Takes: 60 * time.Second,
	Question: `One process, four servers, a limit with four shards that is never reached, 16
goroutines that pause for a millisecond after each call. A server then stops to answer (` + "`CLIENT PAUSE`" + `).
Compared are the latencies of Allow before, and during the stall once the breaker
had time to open, in the same round. The slowest call is that of the whole time, the
moment included in which the server stops; it is compared with the call timeout.`,
	Run: runStall,
}

const (
	stallCallers = 16
	stallPause   = time.Millisecond
	stallSettles = 2 * time.Second // after it began: the breaker is open
	stallNode    = 1
)

func runStall(ctx context.Context, env Env, result *report.Result) error {
	rounds, span := env.rounds(5), env.span(200*time.Millisecond, 3*time.Second)
	settles := choose[time.Duration](0, env.Smoke, 300*time.Millisecond, stallSettles)
	const x = "stalled servers"
	result.Views = []report.View{
		{Metric: "p50", Title: "Median latency", Unit: "µs", X: x},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", X: x},
		{Metric: "p99-ratio", Title: "99th percentile, during the stall over before", Unit: "times", X: x},
		{Metric: "slowest", Title: "Slowest call of all", Unit: "ms", X: x},
		{Metric: "slowest-ratio", Title: "Slowest call over the call timeout", Unit: "times", X: x},
		{Metric: "failed", Title: "Calls that returned an error", Unit: "% of all calls", X: x},
	}
	setting(result, "Call timeout", "%s", shardlimit.DefaultCallTimeout)
	setting(result, "Rounds", "%d of %s before and %s during the stall, which counts %s after it began", rounds, span,
		span, settles)
	found := newFindings()
	for round := range rounds {
		for _, with := range rotated(2, round) {
			run := stallRun{found: found, series: "shardlimit", span: span, settles: settles, failover: with == 1}
			if run.failover {
				run.series = "shardlimit, Failover"
			}
			if err := run.play(ctx, env, result); err != nil {
				return err
			}
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	found.addTo(result)
	return nil
}

// stallRun is one round of one series, on servers of its own.
type stallRun struct {
	found         *findings
	series        string
	span, settles time.Duration
	failover      bool

	mu      sync.Mutex
	times   []int64 // ns, since they were last looked at
	slowest atomic.Int64
	calls   atomic.Int64
	failed  atomic.Int64
}

func (r *stallRun) play(ctx context.Context, env Env, result *report.Result) error {
	servers, err := env.startFarm(ctx, result, 4)
	if err != nil {
		return err
	}
	defer servers.close()
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.nodes()})
	if err != nil {
		return err
	}
	defer client.Close()
	l, err := client.Limiter(ctx, "stall", shardlimit.Limit{Permits: exactLimit.Permits, Per: exactLimit.Per, Shards: 4,
		Failover: r.failover})
	if err != nil {
		return err
	}
	calling, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer func() { end(); wg.Wait() }()
	for range stallCallers {
		wg.Go(func() { r.call(calling, l) })
	}
	if err := load.Sleep(ctx, r.span/2); err != nil { // connections are made
		return err
	}
	r.slowest.Store(0)
	r.calls.Store(0)
	r.failed.Store(0)
	before, err := r.look(ctx, r.span, 0)
	if err != nil {
		return err
	}
	lasts := r.settles + r.span + time.Second
	admin := servers[stallNode].Admin()
	pause := admin.B().ClientPause().Timeout(lasts.Milliseconds()).All().Build()
	if err := admin.Do(ctx, pause).Error(); err != nil {
		return err
	}
	if err := load.Sleep(ctx, r.settles); err != nil {
		return err
	}
	during, err := r.look(ctx, r.span, 1)
	if err != nil {
		return err
	}
	slowest := time.Duration(r.slowest.Load())
	r.found.add(r.series, 1, "p99-ratio", during/before)
	r.found.add(r.series, 1, "slowest", float64(slowest.Microseconds())/1e3)
	r.found.add(r.series, 1, "slowest-ratio", float64(slowest)/float64(shardlimit.DefaultCallTimeout))
	r.found.add(r.series, 1, "failed", 100*float64(r.failed.Load())/float64(max(r.calls.Load(), 1)))
	return load.Sleep(ctx, time.Second) // the server answers again, and can be asked to end
}

// call calls until ctx ends.
func (r *stallRun) call(ctx context.Context, l *shardlimit.Limiter) {
	for ctx.Err() == nil {
		began := time.Now()
		_, err := l.Allow(ctx)
		took := time.Since(began)
		if ctx.Err() != nil {
			return
		}
		r.calls.Add(1)
		if err != nil {
			r.failed.Add(1)
		}
		for was := r.slowest.Load(); int64(took) > was && !r.slowest.CompareAndSwap(was, int64(took)); {
			was = r.slowest.Load()
		}
		r.mu.Lock()
		r.times = append(r.times, int64(took))
		r.mu.Unlock()
		_ = load.Sleep(ctx, stallPause)
	}
}

var errNoCalls = errors.New("no call was made")

// look measures for a while and returns the 99th percentile, in us.
func (r *stallRun) look(ctx context.Context, span time.Duration, stalled float64) (float64, error) {
	r.mu.Lock()
	r.times = nil
	r.mu.Unlock()
	if err := load.Sleep(ctx, span); err != nil {
		return 0, err
	}
	r.mu.Lock()
	times := slices.Clone(r.times)
	r.mu.Unlock()
	if len(times) == 0 {
		return 0, fmt.Errorf("stall: %w", errNoCalls)
	}
	slices.Sort(times)
	p99 := stat.Quantile(times, .99) / 1e3
	r.found.add(r.series, stalled, "p50", stat.Quantile(times, .5)/1e3)
	r.found.add(r.series, stalled, "p99", p99)
	return p99, nil
}

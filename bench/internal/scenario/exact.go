package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var exact = Scenario{
	Name:  "exact",
	Title: "decisions per second of one process on one node",
	Takes: 90 * time.Second,
	Question: `One process, one server, one limit that is never reached, from one goroutine to
thousands, each calling Allow in a loop. Every decision is exact: no leases, and
every rival but the local ceiling asks the server each time. ` + "`script`" + ` is our own
Lua script called once per decision through rueidis, which pipelines by itself:
what ` + "`shardlimit`" + ` gains over it, coalescing gains. Client CPU is that of the whole
process, user and system. Script calls per decision show how many decisions
shared one round trip.`,
	Run: runExact,
}

// exactLimit is out of everybody's reach, yet small enough for the floating
// point of the rivals that compute an interval of 1/rate.
var exactLimit = rival.Limit{Permits: 5_000_000, Per: time.Second}

// What suits exact: seven numbers of goroutines and ten rivals take four minutes.
const (
	exactRounds = 3
	exactSpan   = 800 * time.Millisecond
)

// exactRound is what one rival did in one round at one number of goroutines.
type exactRound struct {
	sample load.Sample
	server server.Usage
}

func runExact(ctx context.Context, env Env, result *report.Result) error {
	goroutines := env.Goroutines
	if len(goroutines) == 0 {
		goroutines = []int{1, 4, 16, 64, 256, 1024, 8192}
		if env.Smoke {
			goroutines = []int{1, 64}
		}
	}
	rounds, span := env.rounds(exactRounds), env.span(100*time.Millisecond, exactSpan)
	result.Views = []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", X: "goroutines", Plot: true, LogX: true,
			LogY: true, Keep: true,
			Drawn: []string{"shardlimit", "script", "rueidislimiter", "ulule", "go-zero", "redis_rate", "Redisson"}},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs", X: "goroutines", Plot: true, LogX: true,
			LogY: true},
		{Metric: "server-cpu", Title: "Server CPU per decision", Unit: "µs", X: "goroutines", LogX: true},
		{Metric: "calls", Title: "Script calls per decision", Unit: "calls", X: "goroutines", LogX: true},
		{Metric: "failed", Title: "Calls that returned an error", Unit: "% of all calls", X: "goroutines", LogX: true},
	}
	setting(result, "Limit", "%s permits per %s, never reached", report.Count(float64(exactLimit.Permits)),
		exactLimit.Per)
	setting(result, "Rounds", "%d of %s for each point, after %s to warm up", rounds, span, span/4)

	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	handles, err := openAll(ctx, env.Rivals, s)
	defer closeAll(handles)
	if err != nil {
		return err
	}
	for _, g := range goroutines {
		done := make([][]exactRound, len(env.Rivals))
		for round := range rounds {
			for _, i := range rotated(len(env.Rivals), round) {
				name := fmt.Sprintf("exact-%d-%d", g, round)
				r, err := measureExact(ctx, s, handles[i], name, load.Plan{Goroutines: g, Warm: span / 4, For: span})
				if errors.Is(err, errIdle) { // by compare-and-set, on a machine that has much else to do
					result.Remark("%s with %d goroutines, round %d: %v.", env.Rivals[i].Name, g, round+1, err)
					continue
				}
				if err != nil {
					return fmt.Errorf("%s with %d goroutines: %w", env.Rivals[i].Name, g, err)
				}
				done[i] = append(done[i], r)
			}
		}
		for i, r := range env.Rivals {
			if len(done[i]) > 0 {
				addExact(result, r, g, done[i])
			}
		}
		env.Progress("%d goroutines done", g)
	}
	return nil
}

func openAll(ctx context.Context, rivals []rival.Rival, s *server.Server) ([]rival.Handle, error) {
	var handles []rival.Handle
	for _, r := range rivals {
		h, err := r.Open(ctx, s.Addr(), exactLimit)
		if err != nil {
			return handles, fmt.Errorf("open %s: %w", r.Name, err)
		}
		handles = append(handles, h)
	}
	return handles, nil
}

func closeAll(handles []rival.Handle) {
	for _, h := range handles {
		h.Close()
	}
}

// measureExact loads a limit that nobody has used before.
func measureExact(ctx context.Context, s *server.Server, h rival.Handle, name string,
	plan load.Plan) (exactRound, error) {
	allow, err := h.Limiter(ctx, name)
	if err != nil {
		return exactRound{}, err
	}
	return observe(ctx, s, plan, func(int) func(context.Context) (bool, error) { return allow })
}

// errIdle means that a rival was asked and did not answer in the counted time.
var errIdle = errors.New("not one decision")

// observe loads as planned and reads the server's account at both ends of the counted time.
func observe(ctx context.Context, s host, plan load.Plan,
	each func(goroutine int) func(context.Context) (bool, error)) (exactRound, error) {
	var before, after server.Usage
	begin, end := plan.Before, plan.After
	plan.Before = func() (err error) {
		if before, err = s.Usage(ctx); err == nil && begin != nil {
			err = begin()
		}
		return err
	}
	plan.After = func() (err error) {
		if after, err = s.Usage(ctx); err == nil && end != nil {
			err = end()
		}
		return err
	}
	sample, err := load.RunEach(ctx, plan, each)
	if err != nil {
		return exactRound{}, err
	}
	if sample.Decisions() == 0 {
		return exactRound{}, fmt.Errorf("%w, %d errors, such as: %v", errIdle, sample.Failed, sample.Err)
	}
	return exactRound{sample, after.Since(before)}, nil
}

func addExact(result *report.Result, r rival.Rival, goroutines int, rounds []exactRound) {
	var (
		each           = make(map[string][]float64)
		denied, failed int64
		last           error
	)
	for _, round := range rounds {
		n := float64(round.sample.Decisions())
		each["rate"] = append(each["rate"], round.sample.PerSecond())
		each["cpu"] = append(each["cpu"], round.sample.CPUMicros())
		each["server-cpu"] = append(each["server-cpu"], round.server.CPU*1e6/n)
		each["calls"] = append(each["calls"], float64(round.server.Scripts)/n)
		each["failed"] = append(each["failed"], 100*float64(round.sample.Failed)/(n+float64(round.sample.Failed)))
		denied += round.sample.Denied
		failed += round.sample.Failed
		if round.sample.Err != nil {
			last = round.sample.Err
		}
	}
	metrics := []string{"rate", "cpu"}
	if !r.Local {
		metrics = append(metrics, "server-cpu", "calls")
	}
	if failed > 0 {
		metrics = append(metrics, "failed")
	}
	for _, metric := range metrics {
		result.Add(r.Name, float64(goroutines), metric, each[metric]...)
	}
	if denied > 0 && !r.Local {
		result.Remark("%s denied %d calls at %d goroutines, although the limit was not reached.", r.Name, denied,
			goroutines)
	}
	if failed > 0 {
		result.Remark("%s failed %d calls at %d goroutines, for example: %v.", r.Name, failed, goroutines, last)
	}
}

// Package scenario holds the benchmarks, one file each. A scenario measures and
// fills a report.Result; starting servers, writing files and drawing is not its
// business beyond asking for it.
package scenario

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// Scenario is one benchmark.
type Scenario struct {
	Name     string // of its subcommand and its files
	Title    string
	Question string // Markdown: what is measured, and how to read it
	// Takes is about how long it runs with a Time of 0.3, on a machine with two cores.
	Takes time.Duration
	Run   func(ctx context.Context, env Env, result *report.Result) error
}

// All lists the scenarios in the order in which they are run and shown. A new
// one is a file of this package and a line here.
func All() []Scenario {
	return []Scenario{exactApart, keys, clusterKeys, gatewayScenario, envoyScenario, lone, latency,
		size, scale, overload,
		accuracy,
		lease,
		fairnessScenario,
		algorithmShapes}
}

// Performance lists the scenarios that docs/performance.md shows, which are to be from one run. The
// most important come first.
func Performance() []Scenario {
	return []Scenario{exactApart, keys, clusterKeys, envoyScenario, gatewayScenario, size, scale, overload, latency,
		accuracy, lone}
}

// takesTime is the Time to which Takes refers. Part of it does not depend on Time.
const takesTime = 0.3

// Estimate is about how long scenarios run if all of them are run as env says,
// where it leaves rounds and spans to them; rather too long than too short.
func Estimate(env Env, scenarios ...Scenario) time.Duration {
	var sum time.Duration
	for _, s := range scenarios {
		sum += s.Takes
	}
	if env.Time > takesTime {
		sum = time.Duration(float64(sum) * env.Time / takesTime)
	}
	return sum
}

// Env is what a run was asked for. Zero values mean the scenario's own choice.
type Env struct {
	Redis      string        // the redis-server program
	Smoke      bool          // try everything once, as quickly as possible
	Rounds     int           // how often each point is measured
	For        time.Duration // how long each point is measured
	Time       float64       // factor on how long scenarios that choose themselves measure each point; 0 is 1
	Goroutines []int
	Cases      []string // of a scenario that has named ones
	rival.Lineup
	Progress func(format string, a ...any) // tells a waiting person what happens
}

func (e Env) rounds(usual int) int { return choose(e.Rounds, e.Smoke, 1, usual) }

func (e Env) span(smoke, usual time.Duration) time.Duration {
	return choose(e.For, e.Smoke, smoke, e.scaled(usual))
}

// windows is how many windows a point is measured for, at least one.
func (e Env) windows(window time.Duration, smoke, usual int) int {
	return max(1, int(e.span(time.Duration(smoke)*window, time.Duration(usual)*window)/window))
}

func (e Env) scaled(d time.Duration) time.Duration {
	if e.Time == 0 {
		return d
	}
	return time.Duration(e.Time * float64(d))
}

func choose[T comparable](asked T, small bool, smoke, usual T) T {
	var zero T
	switch {
	case asked != zero:
		return asked
	case small:
		return smoke
	}
	return usual
}

// host is what limiters are measured on: a server, or several.
type host interface {
	Addr() string
	Usage(ctx context.Context) (server.Usage, error)
	Memory(ctx context.Context) (int64, error)
	Flush(ctx context.Context) error
	Close()
}

// start starts a server for the scenario and notes its version.
func (e Env) start(ctx context.Context, result *report.Result) (*server.Server, error) {
	s, err := server.Start(ctx, e.Redis)
	if err != nil {
		return nil, err
	}
	info, err := s.Info(ctx)
	if err != nil {
		s.Close()
		return nil, err
	}
	version := report.Pair{Name: "redis-server", Value: info["redis_version"]}
	if !slices.Contains(result.Software, version) { // a scenario may start several
		result.Software = append(result.Software, version)
	}
	return s, nil
}

// setting notes a choice of the scenario in the result.
func setting(result *report.Result, name, format string, a ...any) {
	result.Settings = append(result.Settings, report.Pair{Name: name, Value: fmt.Sprintf(format, a...)})
}

// rotated returns the indices 0..n-1 beginning with a different one each round.
func rotated(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}

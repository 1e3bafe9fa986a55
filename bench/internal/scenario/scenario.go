// Package scenario holds the benchmarks. Each is a table: what it asks, what it notes, and what it
// runs. Drawing and pages are not its business.
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
	Question string        // what is measured, and how to read it
	X        string        // what the X of its views mean
	Views    []report.View // only metrics that have one are noted
	Run      func(ctx context.Context, s *Sheet) error
}

// All lists the scenarios in the order in which they are run.
func All() []Scenario {
	return []Scenario{exact, keys, cluster, far, proxy, overloadCapacity, overloadServer, gateway, envoy, lone, latency,
		size, scale, denial, accuracy, fairness, algorithms}
}

// Measure runs the scenario and adds what it finds to the result, also what it found before it
// failed.
func (c Scenario) Measure(ctx context.Context, env Env, result *report.Result) error {
	s := &Sheet{Env: env, Result: result, rounds: make(map[point][]float64)}
	for _, v := range c.Views {
		if v.X == "" {
			v.X = c.X
		}
		result.Views = append(result.Views, v)
	}
	err := c.Run(ctx, s)
	for _, p := range s.order {
		result.Add(p.series, p.x, p.metric, s.rounds[p]...)
	}
	return err
}

// Env is what a run was asked for.
type Env struct {
	Redis    string  // the redis-server program
	Smoke    bool    // try everything once, as quickly as possible
	Time     float64 // factor on how long each point is measured
	Rivals   []rival.Rival
	Progress func(format string, a ...any) // tells a waiting person what happens
}

// turns is how many rounds there are, of so many usually.
func (e Env) turns(usual int) int {
	if e.Smoke {
		return 1
	}
	return usual
}

// span is how long a point is measured, for so long usually.
func (e Env) span(usual time.Duration) time.Duration {
	if e.Smoke {
		return 50 * time.Millisecond
	}
	return time.Duration(e.Time * float64(usual))
}

// windows is how many windows of a second a point is measured for, at least one.
func (e Env) windows(usual int) int {
	return max(1, int(e.span(time.Duration(usual)*time.Second)/time.Second))
}

// numbers are those of goroutines, of so many usually.
func (e Env) numbers(smoke int, usual ...int) []int {
	if e.Smoke {
		return []int{smoke}
	}
	return usual
}

// Sheet is where a scenario notes what it finds.
type Sheet struct {
	Env
	Result *report.Result
	order  []point
	rounds map[point][]float64
	way    time.Duration // to the servers and back, of limiters with one to themselves
}

// point is a place on the sheet.
type point struct {
	series string
	x      float64
	metric string
}

// figures are what one turn found, by metric.
type figures map[string]float64

// Note notes one round of the figures that have a view.
func (s *Sheet) Note(series string, x float64, found figures) {
	for _, v := range s.Result.Views {
		value, ok := found[v.Metric]
		if !ok {
			continue
		}
		p := point{series, x, v.Metric}
		if _, known := s.rounds[p]; !known {
			s.order = append(s.order, p)
		}
		s.rounds[p] = append(s.rounds[p], value)
	}
}

// cases names the X 0, 1, 2 and so on.
func (s *Sheet) cases(names ...string) {
	for i := range s.Result.Views {
		s.Result.Views[i].Nominal, s.Result.Views[i].Cases = true, names
	}
}

// setting notes a choice of the scenario in the result.
func (s *Sheet) setting(name, format string, a ...any) {
	s.Result.Settings = append(s.Result.Settings, report.Pair{Name: name, Value: fmt.Sprintf(format, a...)})
}

// start starts n servers and notes their version.
func (s *Sheet) start(ctx context.Context, n int) (server.Farm, error) {
	f, err := server.StartFarm(ctx, s.Redis, n)
	if err == nil {
		err = s.meet(ctx, f[0])
	}
	return f, err
}

// keyed meets a server like those that are started later, and leaves out rivals without keys.
func (s *Sheet) keyed(ctx context.Context) error {
	on, err := s.start(ctx, 1)
	on.Close()
	s.Rivals = slices.DeleteFunc(s.Rivals, func(r rival.Rival) bool { return r.Keyless })
	return err
}

// meet notes the version of a server, and leaves out, by name, rivals that need what it does not
// have.
func (s *Sheet) meet(ctx context.Context, on *server.Server) error {
	info, err := on.Info(ctx)
	version := report.Pair{Name: "redis-server", Value: info["redis_version"]}
	if !slices.Contains(s.Result.Software, version) {
		s.Result.Software = append(s.Result.Software, version)
	}
	s.Rivals = slices.DeleteFunc(slices.Clone(s.Rivals), func(r rival.Rival) bool {
		if r.Needs == "" || err != nil {
			return false
		}
		var has bool
		if has, err = on.Has(ctx, r.Needs); !has && err == nil {
			s.Result.Remark("%s: the server has no %s.", r.Name, r.Needs)
		}
		return !has
	})
	return err
}

// inTurns plays n series round by round, beginning with another each round. ended is called after
// each.
func (s *Sheet) inTurns(rounds, n int, play func(round, i int) error, ended ...func()) error {
	for round := range rounds {
		for k := range n {
			if err := play(round, (k+round)%n); err != nil {
				return err
			}
		}
		for _, end := range ended {
			end()
		}
		s.Progress("round %d of %d done", round+1, rounds)
	}
	return nil
}

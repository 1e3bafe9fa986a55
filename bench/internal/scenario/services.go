package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/service"
)

var gateway = Scenario{
	Name:  "gateway",
	Title: "what a limit for each API key costs a web server",
	Question: `A net/http server in a process of its own, whose handler answers two letters, with a limiter before it.
Clients on connections that are kept make requests, each with an API key that is drawn at random from 50,000. No key
reaches its limit, or ("denied") all requests have one key, whose one permit is used up. "httplimit" is our middleware
over a Family. "redis_rate" and "EVALSHA", a script of three lines that counts, are called in a handler that was
written for this. "429 without a limiter" refuses everything with constant fields. The CPU is that of the server's
process. What a limiter adds is the CPU with it less that of "no limiter" in the same round.`,
	X: "load",
	Views: []report.View{
		{Metric: "extra", Title: "CPU that the limiter adds to a request", Unit: "µs", Keep: true},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		return s.services(ctx, service.Web(), service.Web()[1], gatewayColumns, 50_000)
	},
}

var envoy = Scenario{
	Name:  "envoy",
	Title: "rate limit services for Envoy",
	Question: `Services for Envoy, each in a process of its own, are called through gRPC by 64 callers on four connections,
as by the worker threads of an Envoy. A call has one descriptor with one entry: always the same, or one drawn at random
from 100,000. No limit is reached, or ("denied") the one descriptor is over its limit. "envoylimit" is our service,
with an exact sliding log. "envoyproxy/ratelimit" is built from its module; it counts in fixed windows. With its local
cache, which is off by default, it remembers what is over the limit. The CPU is that of the service.`,
	X: "load",
	Views: []report.View{
		{Metric: "rate", Title: "Calls per second", Head: "Calls per second of services for Envoy", Unit: "calls/s",
			Keep: true},
		{Metric: "cpu", Title: "CPU of the service per call", Unit: "µs"},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		kinds := []service.Kind{service.EnvoyLimit}
		if !s.Smoke { // which has no time to build the other one
			s.Progress("%s %s is built, unless it was before", service.EnvoyModule, service.EnvoyVersion)
			program, err := service.BuildEnvoy(ctx)
			switch {
			case errors.Is(err, service.ErrMissing):
				s.Result.Remark("%v.", err)
			case err != nil:
				return err
			default:
				const cache = 10 << 20 // bytes; what the examples of that project use
				kinds = append(kinds, service.EnvoyProxy(service.EnvoyModule[len("github.com/"):]+", local cache",
					program, cache),
					service.EnvoyProxy(service.EnvoyModule[len("github.com/"):], program, 0))
				s.Result.Software = append(s.Result.Software, report.Pair{Name: service.EnvoyModule,
					Value: service.EnvoyVersion})
			}
		}
		return s.services(ctx, kinds, kinds[len(kinds)-1], envoyColumns, 100_000)
	},
}

// column is a load on a service.
type column struct {
	name    string
	callers int
	one     bool // all calls are for one key
	denied  bool // whose permits are used up
	half    bool // calls come at half of what the slowest kind makes, whether or not earlier ones were answered
}

var gatewayColumns = []column{
	{name: "64 connections", callers: 64},
	{name: "512 connections", callers: 512},
	{name: "64, denied", callers: 64, one: true, denied: true},
	{name: "half load", callers: 512, half: true},
}

var envoyColumns = []column{
	{name: "one descriptor", callers: 64, one: true},
	{name: "100 000 descriptors", callers: 64},
	{name: "one, denied", callers: 64, one: true, denied: true},
	{name: "half load", callers: 64, half: true},
}

// serviceRun is services under the loads of columns.
type serviceRun struct {
	*Sheet
	on      server.Farm
	columns []column
	names   []string // of keys
	span    time.Duration
	pace    float64 // calls a second at half load
}

// services lets every kind have its turns. paces is the one half of whose rate is half load.
func (s *Sheet) services(ctx context.Context, kinds []service.Kind, paces service.Kind, columns []column,
	keys int) error {
	run := &serviceRun{Sheet: s, columns: columns, span: s.span(3 * time.Second)}
	if s.Smoke {
		keys = 100
	}
	run.names = keyNames(keys)
	var names []string
	for _, c := range columns {
		names = append(names, c.name)
	}
	s.cases(names...)
	var err error
	if run.on, err = s.start(ctx, 1); err != nil {
		return err
	}
	defer run.on.Close()
	if err := run.turn(ctx, paces, false, func(t serviceTurn) error {
		found, err := t.full(ctx, columns[len(columns)-1], 0)
		run.pace = max(found["rate"]/2, 1)
		return err
	}); err != nil {
		return fmt.Errorf("pace: %w", err)
	}
	rounds := s.turns(5)
	s.setting("Keys", "%d, each with a limit out of reach for an hour; denied: one key with one permit", keys)
	s.setting("Rounds", "%d of %s for each point, after %s to warm up; services take turns", rounds, run.span,
		run.span/4)
	s.setting("Half load", "%.0f calls/s at equal distances: half of what %s made before the rounds", run.pace,
		paces.Name)
	found := make(map[point]figures) // of a round, by series and X
	return s.inTurns(rounds, len(kinds), func(round, i int) error {
		for _, denied := range []bool{false, true} {
			err := run.turn(ctx, kinds[i], denied, func(t serviceTurn) error {
				for x, c := range columns {
					if c.denied != denied {
						continue
					}
					got, err := t.column(ctx, c, uint64(round))
					if err != nil {
						return err
					}
					found[point{kinds[i].Name, float64(x), ""}] = got
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", kinds[i].Name, err)
			}
		}
		return nil
	}, func() {
		run.note(kinds, found)
		clear(found)
	})
}

// note notes the figures of a round, and what each kind takes beside none.
func (run *serviceRun) note(kinds []service.Kind, found map[point]figures) {
	for _, k := range kinds {
		for x := range run.columns {
			own, none := found[point{k.Name, float64(x), ""}], found[point{service.None, float64(x), ""}]
			if own != nil && none != nil && k.Name != service.None {
				own["extra"] = own["cpu"] - none["cpu"]
			}
			run.Note(k.Name, float64(x), own)
		}
	}
}

// serviceTurn is one kind that has Redis to itself.
type serviceTurn struct {
	*serviceRun
	name    string
	process *service.Process
	callers service.Callers
}

// turn plays a turn and leaves Redis empty.
func (run *serviceRun) turn(ctx context.Context, k service.Kind, denied bool, play func(serviceTurn) error) error {
	limit := keysNever
	if denied {
		limit = keysUsedUp
	}
	process, err := k.Start(ctx, service.Job{Redis: run.on.Addr(), Permits: limit.Permits, Per: limit.Per})
	if err != nil {
		return err
	}
	defer process.Close()
	most := keysFillers
	for _, c := range run.columns {
		most = max(most, c.callers)
	}
	callers, err := process.Dial(most)
	if err != nil {
		return err
	}
	defer callers.Close()
	t := serviceTurn{serviceRun: run, name: k.Name, process: process, callers: callers}
	if err = t.fill(ctx, denied); err == nil {
		err = play(t)
	}
	return errors.Join(err, run.on.Flush(ctx))
}

// refuses tells whether calls of the column are refused.
func (t serviceTurn) refuses(denied bool) bool {
	return t.name == service.Refuse || denied && t.name != service.None
}

// fill makes a call with each key, and with the one that is denied again.
func (t serviceTurn) fill(ctx context.Context, denied bool) error {
	free := make(chan int, keysFillers)
	for caller := range keysFillers {
		free <- caller
	}
	allow := func(ctx context.Context, key string) (bool, error) {
		caller := <-free
		defer func() { free <- caller }()
		return t.callers.Allow(ctx, caller, key)
	}
	names := t.names
	if denied {
		names = names[:1]
	}
	if err := callOnce(ctx, allow, names, t.name != service.Refuse); err != nil || !denied {
		return err
	}
	return callOnce(ctx, allow, names, !t.refuses(true))
}

func (t serviceTurn) column(ctx context.Context, c column, seed uint64) (figures, error) {
	if c.half {
		return t.paced(ctx, c, seed)
	}
	return t.full(ctx, c, seed)
}

func (t serviceTurn) next(c column, seed uint64, caller int) func() string {
	if c.one {
		return func() string { return t.names[0] }
	}
	draw := draws{len(t.names), seed}.of(caller)
	return func() string { return t.names[draw()] }
}

// full has all callers call as fast as they are answered.
func (t serviceTurn) full(ctx context.Context, c column, seed uint64) (figures, error) {
	return t.closed(ctx, t.on, loop{who: t.name + ", " + c.name, callers: c.callers, span: t.span, timed: true,
		denied: t.refuses(c.denied), cpu: t.process.CPU, each: func(caller int) load.Call {
			next := t.next(c, seed, caller)
			return func(ctx context.Context) (bool, error) { return t.callers.Allow(ctx, caller, next()) }
		}})
}

// paced has calls come at the pace of half load.
func (t serviceTurn) paced(ctx context.Context, c column, seed uint64) (figures, error) {
	next := make([]func() string, c.callers)
	for i := range next {
		next[i] = t.next(c, seed, i)
	}
	before, err := t.process.CPU()
	if err != nil {
		return nil, err
	}
	got, err := load.Open(ctx, load.OpenPlan{Arrivals: load.Even(t.pace, 1), Warm: t.span / 4, For: t.span,
		Workers: c.callers}, func(ctx context.Context, d load.Due) (bool, error) {
		return t.callers.Allow(ctx, d.Worker, next[d.Worker]())
	})
	if err != nil {
		return nil, err
	}
	after, err := t.process.CPU()
	if err != nil || got.Decisions() == 0 {
		return nil, err
	}
	found := t.Sheet.paced(t.name+", "+c.name, got, t.refuses(c.denied))
	found["cpu"] = micros(after-before) / float64(got.Decisions())
	return found, nil
}

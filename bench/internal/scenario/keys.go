package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

var keys = Scenario{
	Name:  "keys",
	Title: "a limit for each of many keys",
	Takes: 285 * time.Second,
	Question: `One process, one server, and a limit for each of many keys, as an API gateway has. Callers
call in a loop, each for a key that it draws at random: any with the same probability, or (` + "`zipf`" + `) the
key of rank n with one that falls with the power 1.1 of n. A limit is never reached (` + "`few`" + `: it has 100
permits an hour, so that our sliding log is exact to each), or (` + "`denied`" + `) used up and known to be so. ` +
		"`shardlimit`" + ` has a Family; ` + "`script`" + ` is our own script,
called once for each decision through rueidis. A column is a number of callers and a case.
Each rival has a new client and an empty server in each round. Every key was called once before,
of ` + "`denied`" + ` twice, of a million keys none: there nearly every call is the first for its key. The
latency is that of every eighth call, from a loop without pauses. Bytes for each key are what the heap
and the server have more when each key was called once, without what the server
keeps for connections. They are weighed in ` + "`denied`" + `, with one permit an hour: a limiter that stores only
when the next permit comes (GCRA) forgets a key within a second where that is soon.`,
	Run: runKeys,
}

// The limits of the two kinds. Windows are so long that none ends meanwhile, but for rivals whose
// windows end with the hour.
var (
	keysNever  = rival.Limit{Permits: 1_000_000_000, Per: time.Hour} // nobody makes so many decisions in a turn
	keysFew    = rival.Limit{Permits: 100, Per: time.Hour}           // more than a key is called in a turn
	keysUsedUp = rival.Limit{Permits: 1, Per: time.Hour}
)

const (
	keysRounds = 3
	keysSpan   = 800 * time.Millisecond
	keysBase   = "redis_rate" // the rival that others are compared with
	keysFill   = 50_000       // keys that are called once before; of a case with more, none is
)

// keysCase is a number of keys, how they are drawn, and whether their permits are used up.
type keysCase struct {
	name         string
	keys         int
	zipf, denied bool
	few          bool // few permits: a sliding log is exact to the permit there
	weigh        bool // the memory that the keys take is reported; each must be kept until then
	callers      []int
}

func (c keysCase) limit() rival.Limit {
	switch {
	case c.denied:
		return keysUsedUp
	case c.few:
		return keysFew
	}
	return keysNever
}

// keysCases are the cases that were asked for.
func keysCases(env Env) ([]keysCase, error) {
	all := []keysCase{
		{name: "1", keys: 1, callers: []int{1000}},
		{name: "100", keys: 100, callers: []int{1000}},
		{name: "10k", keys: 10_000, callers: []int{1000}},
		{name: "50k", keys: 50_000, callers: []int{1, 4, 64, 1000}},
		{name: "1M", keys: 1_000_000, callers: []int{1, 4, 64, 1000}},
		{name: "50k zipf", keys: 50_000, zipf: true, callers: []int{64, 1000}},
		{name: "50k few", keys: 50_000, few: true, callers: []int{64, 1000}},
		{name: "50k denied", keys: 50_000, denied: true, weigh: true, callers: []int{64, 1000}},
	}
	if env.Smoke && len(env.Cases) == 0 {
		all = []keysCase{
			{name: "200", keys: 200, callers: []int{64}},
			{name: "200 zipf", keys: 200, zipf: true, callers: []int{16}},
			{name: "200 denied", keys: 200, denied: true, weigh: true, callers: []int{16}},
		}
	}
	var names []string
	for i, c := range all {
		names = append(names, c.name)
		if len(env.Goroutines) > 0 {
			all[i].callers = env.Goroutines
		}
	}
	for _, name := range env.Cases {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no case is named %q; there are %s", name, strings.Join(names, "; "))
		}
	}
	if len(env.Cases) > 0 {
		all = slices.DeleteFunc(all, func(c keysCase) bool { return !slices.Contains(env.Cases, c.name) })
	}
	return all, nil
}

// keysRun is one run of the scenario.
type keysRun struct {
	env    Env
	server host
	rivals []rival.Rival // that can limit by key
	result *report.Result
	found  *findings
	span   time.Duration
	names  []string // of all keys
}

func runKeys(ctx context.Context, env Env, result *report.Result) error {
	cases, err := keysCases(env)
	if err != nil {
		return err
	}
	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	return playKeys(ctx, env, result, s, env.Rivals, cases)
}

// playKeys lets those of the rivals play that can limit by key.
func playKeys(ctx context.Context, env Env, result *report.Result, on host, rivals []rival.Rival,
	cases []keysCase) (err error) {
	run := &keysRun{env: env, server: on, result: result, found: newFindings(),
		span: env.span(100*time.Millisecond, keysSpan)}
	rounds, most := env.rounds(keysRounds), 0
	for _, c := range cases {
		most = max(most, c.keys)
	}
	run.names = keyNames(most)
	if run.rivals, err = keyed(ctx, rivals, on); err != nil {
		return err
	}
	result.Views = keysViews(cases)
	setting(result, "Limit of a key", "%s permits per %s, never reached; few: %d per %s; denied: %d per %s",
		report.Count(float64(keysNever.Permits)), keysNever.Per, keysFew.Permits, keysFew.Per, keysUsedUp.Permits,
		keysUsedUp.Per)
	setting(result, "Rounds", "%d of %s for each point, after %s to warm up", rounds, run.span, run.span/4)
	setting(result, "Keys", "drawn with seeds that are the same for all rivals of a round")
	first := 0 // column of the case
	for _, c := range cases {
		for round := range rounds {
			if err := run.round(ctx, c, first, round); err != nil {
				run.found.addTo(result)
				return err
			}
			env.Progress("case %q: round %d of %d done", c.name, round+1, rounds)
		}
		first += len(c.callers)
	}
	run.found.addTo(result)
	return nil
}

// keyed are those of the rivals that have limits for keys.
func keyed(ctx context.Context, all []rival.Rival, s host) (some []rival.Rival, err error) {
	for _, r := range all {
		h, err := r.Open(ctx, s.Addr(), keysNever)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", r.Name, err)
		}
		allow, err := rival.Keys(ctx, h, keysFamily)
		h.Close()
		if err != nil {
			return nil, fmt.Errorf("keys of %s: %w", r.Name, err)
		}
		if allow != nil {
			some = append(some, r)
		}
	}
	return some, s.Flush(ctx)
}

// keyNames are the keys of the first n users.
func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user %06d", i)
	}
	return names
}

func keysViews(cases []keysCase) []report.View {
	var columns []string
	for _, c := range cases {
		for _, callers := range c.callers {
			columns = append(columns, fmt.Sprintf("%d on %s", callers, c.name))
		}
	}
	views := []report.View{
		{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s", Plot: true, LogY: true, Keep: true,
			At:    []string{"1000 on 1", "1 on 50k", "64 on 50k", "1000 on 50k", "1000 on 1M", "1000 on 50k denied"},
			Drawn: []string{"shardlimit", "script", "redis_rate", "rueidislimiter", "ulule", "go-zero"}},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs", Plot: true, LogY: true},
		{Metric: "server-cpu", Title: "Server CPU per decision", Unit: "µs"},
		{Metric: "script", Title: "Time in scripts per decision", Unit: "µs"},
		{Metric: "calls", Title: "Script calls per decision", Unit: "calls"},
		{Metric: "p50", Title: "Median latency", Unit: "µs"},
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", Plot: true, LogY: true},
		{Metric: "ratio", Title: "Decisions per second over those of redis_rate", Unit: "times"},
		{Metric: "best", Title: "Decisions per second over those of the best limiter that is not ours", Unit: "times"},
		{Metric: "failed", Title: "Calls that returned an error", Unit: "% of all calls"},
	}
	for i := range views {
		views[i].X, views[i].Nominal, views[i].Cases = "callers on keys", true, columns
	}
	if !slices.ContainsFunc(cases, func(c keysCase) bool { return c.weigh }) {
		return views
	}
	return append(views,
		report.View{Metric: "heap", Title: "Memory of the process for each key", Unit: "bytes", X: "keys"},
		report.View{Metric: "redis", Title: "Memory of the server for each key", Unit: "bytes", X: "keys"})
}

// round lets every rival have its turn and compares those of the round.
func (run *keysRun) round(ctx context.Context, c keysCase, first, round int) error {
	rates := make([]map[string]float64, len(c.callers)) // by the name of the rival
	for i := range rates {
		rates[i] = make(map[string]float64)
	}
	draws := newDraws(c.keys, c.zipf, uint64(round))
	for _, i := range rotated(len(run.rivals), round) {
		turn := keysTurn{keysRun: run, rival: run.rivals[i], kind: c, draws: draws}
		if err := turn.play(ctx, first, rates); err != nil {
			return fmt.Errorf("%s, case %q: %w", turn.rival.Name, c.name, err)
		}
	}
	for i, of := range rates {
		run.compare(float64(first+i), of)
	}
	return nil
}

// compare notes how the rivals stand to each other in a round.
func (run *keysRun) compare(x float64, rates map[string]float64) {
	best := 0.0
	for _, r := range run.rivals {
		if r.Module != "" {
			best = max(best, rates[r.Name])
		}
	}
	for _, r := range run.rivals {
		rate, ok := rates[r.Name]
		if !ok {
			continue
		}
		if base := rates[keysBase]; base > 0 {
			run.found.add(r.Name, x, "ratio", rate/base)
		}
		if best > 0 {
			run.found.add(r.Name, x, "best", rate/best)
		}
	}
}

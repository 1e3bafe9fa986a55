package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var keys = Scenario{
	Name:  "keys",
	Title: "a limit for each of many keys",
	Question: `One process, one server, and a limit for each of many keys, as an API gateway has. Callers call in a loop,
each for a key that it draws at random. A limit is never reached ("few": it has 100 permits an hour, so that our sliding log is
exact to each), or ("denied") used up and known to be so. Each rival has a new client and an empty server in each
round. Every key was called once before, of "denied" twice, of a million keys none. The latency is that of every
eighth call.`,
	X: "callers on keys",
	Views: slices.Concat(keysViews, []report.View{{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s",
		LogY: true, Keep: true, Drawn: drawn,
		At: []string{"1000 on 1", "1 on 50k", "64 on 50k", "1000 on 50k", "1000 on 1M", "1000 on 50k denied"}}}),
	Run: func(ctx context.Context, s *Sheet) error {
		cases, err := s.keysCases()
		if err != nil {
			return err
		}
		on, err := s.start(ctx, 1)
		if err != nil {
			return err
		}
		defer on.Close()
		return s.keys(ctx, on, s.Rivals, cases)
	},
}

var keysViews = []report.View{
	{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs"},
	{Metric: "server-cpu", Title: "Server CPU per decision", Unit: "µs"},
	{Metric: "script", Title: "Time in scripts per decision", Unit: "µs"},
	{Metric: "calls", Title: "Script calls per decision", Unit: "calls"},
	{Metric: "p50", Title: "Median latency", Unit: "µs"},
	{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs"},
	{Metric: "ratio", Title: "Decisions per second over those of redis_rate", Unit: "times"},
	{Metric: "failed", Title: "Calls that returned an error", Unit: "% of all calls"},
}

var cluster = Scenario{
	Name:  "cluster",
	Title: "a limit for each of many keys, on a cluster",
	Question: `As keys, on a Redis Cluster of three masters that share this machine with the callers. Clients connect as to
any cluster. A script call can have to do with one slot only.`,
	X: keys.X,
	Views: slices.Concat(keysViews, []report.View{{Metric: "rate", Title: "Decisions per second",
		Unit: "decisions/s"}}),
	Run: func(ctx context.Context, s *Sheet) error {
		on, err := server.StartCluster(ctx, s.Redis, 3)
		if err != nil {
			return err
		}
		defer on.Close()
		if err := s.version(ctx, on[0]); err != nil {
			return err
		}
		cases := []keysCase{{name: "50k", keys: 50_000, callers: s.numbers(64, 64, 1000)}}
		if s.Smoke {
			cases[0].keys = 200
		}
		return s.keys(ctx, on, slices.DeleteFunc(slices.Clone(s.Rivals),
			func(r rival.Rival) bool { return !r.Clustered }), cases)
	},
}

const (
	keysBase    = "redis_rate" // the rival that others are compared with
	keysFill    = 50_000       // keys that are called once before; of a case with more, none is
	keysFillers = 64           // callers that do so
)

// keysCase is a number of keys, how they are drawn, and the limit of each.
type keysCase struct {
	name    string
	keys    int
	limit   rival.Limit // none: never reached
	callers []int
}

// The limits of a key. Windows are so long that none ends meanwhile, but for rivals whose windows
// end with the hour.
var (
	keysNever  = rival.Limit{Permits: 1_000_000_000, Per: time.Hour} // nobody makes so many decisions in a turn
	keysFew    = rival.Limit{Permits: 100, Per: time.Hour}           // more than a key is called in a turn
	keysUsedUp = rival.Limit{Permits: 1, Per: time.Hour}
)

// keysCases are the cases that were asked for.
func (e Env) keysCases() (cases []keysCase, err error) {
	all := []keysCase{
		{name: "1", keys: 1, callers: []int{1000}},
		{name: "50k", keys: 50_000, callers: []int{1, 64, 1000}},
		{name: "1M", keys: 1_000_000, callers: []int{1000}},
		{name: "50k few", keys: 50_000, limit: keysFew, callers: []int{64, 1000}},
		{name: "50k denied", keys: 50_000, limit: keysUsedUp, callers: []int{64, 1000}},
	}
	if e.Smoke && len(e.Cases) == 0 {
		all = []keysCase{{name: "200", keys: 200}, {name: "200 denied", keys: 200, limit: keysUsedUp}}
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
		c.callers = e.numbers(16, c.callers...)
		if len(e.Cases) == 0 || slices.Contains(e.Cases, c.name) {
			cases = append(cases, c)
		}
	}
	for _, name := range e.Cases {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no case is named %q; there are %s", name, strings.Join(names, "; "))
		}
	}
	return cases, nil
}

// keys lets the rivals play, each with the server to itself.
func (s *Sheet) keys(ctx context.Context, on server.Farm, rivals []rival.Rival, cases []keysCase) error {
	rounds, span, most := s.turns(3), s.span(800*time.Millisecond), 0
	var columns []string
	for _, c := range cases {
		most = max(most, c.keys)
		for _, callers := range c.callers {
			columns = append(columns, fmt.Sprintf("%d on %s", callers, c.name))
		}
	}
	s.cases(columns...)
	s.setting("Limit of a key", "%d permits per %s, never reached; few: %d; denied: %d", keysNever.Permits,
		keysNever.Per, keysFew.Permits, keysUsedUp.Permits)
	s.setting("Rounds", "%d of %s for each point, after %s to warm up, with the same draws", rounds, span, span/4)
	names, first := keyNames(most), 0
	for _, c := range cases {
		rates := make(map[point]float64) // of a round
		err := s.inTurns(rounds, len(rivals), func(round, i int) error {
			t := keysTurn{Sheet: s, kind: c, on: on, rival: rivals[i], span: span, names: names[:c.keys],
				draws: draws{c.keys, uint64(round)}}
			err := t.play(ctx, func(k int, found figures) {
				t.Note(t.rival.Name, float64(first+k), found)
				rates[point{t.rival.Name, float64(first + k), ""}] = found["rate"]
			})
			if err != nil {
				return fmt.Errorf("%s, case %q: %w", t.rival.Name, c.name, err)
			}
			return nil
		}, func() { s.compare(rates); clear(rates) })
		if err != nil {
			return err
		}
		first += len(c.callers)
	}
	return nil
}

// compare notes how the rivals stand to one of them in a round.
func (s *Sheet) compare(rates map[point]float64) {
	for p, rate := range rates {
		if base := rates[point{keysBase, p.x, ""}]; base > 0 {
			s.Note(p.series, p.x, figures{"ratio": rate / base})
		}
	}
}

// keysTurn is one rival in one round of a case.
type keysTurn struct {
	*Sheet
	kind  keysCase
	on    server.Farm
	rival rival.Rival
	span  time.Duration
	names []string
	draws draws
}

// play has a client to itself, and leaves the server empty.
func (t keysTurn) play(ctx context.Context, note func(k int, found figures)) error {
	limit := t.kind.limit
	if limit == (rival.Limit{}) {
		limit = keysNever
	}
	o, err := open(ctx, t.rival.Name, func() (rival.Handle, error) { return t.rival.Open(ctx, t.on.Addr(), limit) })
	if err != nil {
		return err
	}
	err = t.loads(ctx, o, limit == keysUsedUp, note)
	o.Close()
	return errors.Join(err, t.on.Flush(ctx))
}

func (t keysTurn) loads(ctx context.Context, o opened, denied bool, note func(k int, found figures)) error {
	allow, err := o.Keys(ctx, "users")
	if err != nil {
		return err
	}
	if len(t.names) <= keysFill {
		if err := callOnce(ctx, allow, t.names, true); err != nil {
			return err
		}
	}
	if denied {
		if err := callOnce(ctx, allow, t.names, false); err != nil {
			return err
		}
	}
	for k, callers := range t.kind.callers {
		found, err := t.closed(ctx, t.on, loop{who: t.rival.Name + " in case " + t.kind.name, callers: callers,
			span: t.span, timed: 8, denied: denied, each: func(caller int) load.Call {
				next := t.draws.of(caller)
				return func(ctx context.Context) (bool, error) { return allow(ctx, t.names[next()]) }
			}})
		if err != nil {
			return fmt.Errorf("%d callers: %w", callers, err)
		}
		if found != nil {
			note(k, found)
		}
	}
	return nil
}

// keyNames are the keys of the first n users.
func keyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("user %06d", i)
	}
	return names
}

// callOnce calls every key once, by several callers, each of which calls every so-manieth. A key
// whose call fails, or does not have the wanted answer, is called again after a moment.
func callOnce(ctx context.Context, allow rival.AllowKey, names []string, want bool) error {
	callers := min(keysFillers, len(names))
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := i; n < len(names) && errs[i] == nil; n += callers {
				name := names[n]
				errs[i] = until(ctx, want, func(ctx context.Context) (bool, error) { return allow(ctx, name) })
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// draws chooses keys at random, the same ones for the same seed.
type draws struct {
	keys int
	seed uint64
}

// of returns what one of several callers draws, for one goroutine.
func (d draws) of(caller int) func() int {
	random := rand.New(rand.NewPCG(d.seed, uint64(caller)))
	return func() int { return random.IntN(d.keys) }
}

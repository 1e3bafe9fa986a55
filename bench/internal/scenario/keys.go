package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

var keys = Scenario{
	Name:  "keys",
	Title: "a limit for each of many keys",
	Question: `One process, one server, and a limit for each of many keys, as an API gateway has: 100 permits a minute
each, so that our sliding log is exact to each. Callers call in a loop, each for a key that it draws at random.
All counts from the first call on, for a new client and an empty server: so most keys are new. A call waits 100 ms at
most, shardlimit's by its defaults, the rivals' by their context. No limit is reached, or ("denied") all are used up,
and known to be so. "once" calls each key once, 50,000 of rivals.`,
	X: "callers on keys",
	Views: []report.View{
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs"},
		{Metric: "script", Title: "Time in the server per decision", Unit: "µs"},
		{Metric: "rate", Title: "Decisions per second", Head: "Decisions per second on many keys",
			Unit: "decisions/s, without calls that failed", LogY: true, Keep: true, Drawn: compared,
			At: []string{"1 on 50k", "64 on 50k", "1000 on 50k", "10000 on 50k", "1000 on 1M"}},
		{Metric: "bytes", Title: "Memory of a key in Redis", Unit: "bytes"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		if err := s.keyed(ctx); err != nil {
			return err
		}
		cases := []keysCase{
			{name: "50k", keys: 50_000, limit: keysUsual, callers: []int{1, 64, 1000, 10_000}},
			{name: "1M", keys: 1_000_000, limit: keysUsual, callers: []int{1000}},
			{name: "2k denied", keys: 2000, limit: keysUsedUp, callers: []int{1000}},
		}
		once := keysCase{name: "1M once", keys: 1_000_000, limit: keysUsual, callers: []int{keysFillers}}
		if s.Smoke {
			cases = []keysCase{cases[0], cases[2]}
			cases[0].keys, cases[1].keys = 200, 200
			once.keys = 200
		}
		columns, err := s.keys(ctx, nil, cases)
		if err != nil {
			return err
		}
		s.cases(append(columns, once.name)...)
		return s.inTurns(1, len(s.Rivals), func(_, i int) error {
			return s.once(ctx, s.Rivals[i], once, float64(len(columns)))
		})
	},
}

var cluster = Scenario{
	Name:  "cluster",
	Title: "a limit for each of many keys, on a cluster",
	Question: `As keys, on a Redis Cluster of three masters that share this machine with the callers. Clients connect as
to any cluster. A script call can have to do with one slot only.`,
	X:     keys.X,
	Views: []report.View{{Metric: "rate", Title: "Decisions per second", Unit: "decisions/s"}},
	Run: func(ctx context.Context, s *Sheet) error {
		on, err := server.StartCluster(ctx, s.Redis, 3)
		if err != nil {
			return err
		}
		defer on.Close()
		if err := s.meet(ctx, on[0]); err != nil {
			return err
		}
		s.Rivals = slices.DeleteFunc(s.Rivals, func(r rival.Rival) bool { return !r.Clustered })
		c := keysCase{name: "50k", keys: 50_000, limit: keysUsual, callers: []int{64, 1000, 3000}}
		if s.Smoke {
			c.keys = 200
		}
		_, err = s.keys(ctx, on, []keysCase{c})
		return err
	},
}

var far = Scenario{
	Name:  "far",
	Title: "one limit and many keys, far from the server",
	Question: `As keys, on a way to the server that takes a while there and back, for one limit (one key) and for many
keys. The way allows each caller as many decisions a second as round trips fit into it.`,
	X: keys.X,
	Views: []report.View{{Metric: "rate", Title: "Decisions per second",
		Unit: "decisions/s, without calls that failed"}},
	Run: func(ctx context.Context, s *Sheet) error {
		if err := s.keyed(ctx); err != nil {
			return err
		}
		var cases []keysCase
		for _, way := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
			one := keysCase{name: fmt.Sprintf("one limit %s away", way), keys: 1, limit: keysNever,
				callers: []int{10, 1000}, way: way}
			many := one
			many.name, many.keys, many.limit = fmt.Sprintf("50k %s away", way), 50_000, keysUsual
			cases = append(cases, one, many)
		}
		if s.Smoke {
			cases = cases[2:4]
			cases[1].keys = 200
		}
		_, err := s.keys(ctx, nil, cases)
		return err
	},
}

const (
	keysFew     = 50_000 // keys of a rival that are called once: enough to see what one takes
	keysFillers = 64     // callers that call every key once
)

// keysCase is a number of keys, the limit of each, and how many callers draw among them.
type keysCase struct {
	name    string
	keys    int
	limit   rival.Limit
	callers []int
	way     time.Duration // to the server and back
}

// The limits of a key. Long windows do not end meanwhile, but for rivals whose windows end with the
// hour.
var (
	keysUsual  = rival.Limit{Permits: 100, Per: time.Minute}         // more than a key is called in a turn
	keysNever  = rival.Limit{Permits: 1_000_000_000, Per: time.Hour} // nobody makes so many decisions in a turn
	keysUsedUp = rival.Limit{Permits: 1, Per: time.Hour}
)

// keys lets the rivals play, on the cluster if there is one. It returns the names of the columns.
func (s *Sheet) keys(ctx context.Context, cluster server.Farm, cases []keysCase) (columns []string, err error) {
	rounds, span, most := s.turns(2), s.span(2500*time.Millisecond), 0
	for i, c := range cases {
		cases[i].callers = s.numbers(16, c.callers...)
		most = max(most, c.keys)
		for _, callers := range cases[i].callers {
			columns = append(columns, fmt.Sprintf("%d on %s", callers, c.name))
		}
	}
	s.cases(columns...)
	s.setting("Limit of a key", "%d permits per %s, not reached; denied: %d", keysUsual.Permits, keysUsual.Per,
		keysUsedUp.Permits)
	s.setting("Rounds", "%d of %s for each point, from the first call on, with the same draws", rounds, span)
	names, x := keyNames(most), 0
	for _, c := range cases {
		s.way = c.way
		for _, callers := range c.callers {
			err := s.inTurns(rounds, len(s.Rivals), func(round, i int) error {
				draws := draws{c.keys, uint64(round)}
				return s.fresh(ctx, cluster, s.Rivals[i], c.limit, func(t turn) error {
					l := loop{who: s.Rivals[i].Name, callers: callers, span: span, cold: true,
						denied: c.limit == keysUsedUp, each: draws.calls(names, t.allow)}
					if l.denied {
						if err := useUp(ctx, t.allow, names[:c.keys]); err != nil {
							return err
						}
					}
					found, err := s.closed(ctx, t.on, l)
					s.Note(l.who, float64(x), found)
					return err
				})
			})
			if err != nil {
				return nil, fmt.Errorf("case %q: %w", columns[x], err)
			}
			x++
		}
	}
	return columns, nil
}

// turn is a rival with a client and servers to itself.
type turn struct {
	on    server.Farm
	allow rival.AllowKey
}

// fresh lets play have a turn of a rival, on a new server, or on a cluster that is empty, and is
// emptied afterwards. Each call waits as long as one of ours waits by default.
func (s *Sheet) fresh(ctx context.Context, cluster server.Farm, r rival.Rival, limit rival.Limit,
	play func(turn) error) (err error) {
	on := cluster
	if on == nil {
		if on, err = server.StartFarm(ctx, s.Redis, 1); err != nil {
			return err
		}
		defer on.Close()
	}
	addr := on.Addr()
	if s.way > 0 {
		d, err := server.At(addr, s.way)
		if err != nil {
			return err
		}
		defer d.Close()
		addr = d.Addr()
	}
	o, err := open(ctx, r.Name, func() (rival.Handle, error) { return r.Open(ctx, addr, limit) })
	if err != nil {
		return err
	}
	allow, err := o.Keys(ctx, "users")
	if err == nil {
		patient := allow
		if r.Name != rival.Shardlimit.Name {
			patient = func(ctx context.Context, key string) (bool, error) {
				ctx, cancel := context.WithTimeout(ctx, shardlimit.DefaultCallTimeout)
				defer cancel()
				return allow(ctx, key)
			}
		}
		err = play(turn{on, patient})
	}
	o.Close()
	if err = errors.Join(err, cluster.Flush(ctx)); err != nil {
		err = fmt.Errorf("%s: %w", r.Name, err)
	}
	return err
}

// once notes what a key takes in Redis that was called once.
func (s *Sheet) once(ctx context.Context, r rival.Rival, c keysCase, x float64) error {
	if r.Name != rival.Shardlimit.Name {
		c.keys = min(c.keys, keysFew)
	}
	names := keyNames(c.keys)
	return s.fresh(ctx, nil, r, c.limit, func(t turn) error {
		weigh := func() (bytes float64, err error) {
			info, err := t.on[0].Info(ctx)
			if err != nil {
				return 0, err
			}
			return strconv.ParseFloat(info["used_memory"], 64)
		}
		before, err := weigh()
		if err == nil {
			err = callOnce(ctx, t.allow, names, true)
		}
		if err != nil {
			return err
		}
		after, err := weigh()
		s.Note(r.Name, x, figures{"bytes": (after - before) / float64(c.keys)})
		return err
	})
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

// useUp calls every key until it is known to have nothing.
func useUp(ctx context.Context, allow rival.AllowKey, names []string) error {
	once := func(ctx context.Context, key string) (bool, error) { // a call that fails may have spent the permit
		_, err := allow(ctx, key)
		return true, err
	}
	if err := callOnce(ctx, once, names, true); err != nil {
		return err
	}
	return callOnce(ctx, allow, names, false)
}

// draws chooses keys at random, the same ones for the same seed.
type draws struct {
	keys int
	seed uint64
}

// calls is how each of several callers calls.
func (d draws) calls(names []string, allow rival.AllowKey) func(caller int) load.Call {
	return func(caller int) load.Call {
		next := d.of(caller)
		return func(ctx context.Context) (bool, error) { return allow(ctx, names[next()]) }
	}
}

// of returns what one of several callers draws, for one goroutine.
func (d draws) of(caller int) func() int {
	random := rand.New(rand.NewPCG(d.seed, uint64(caller)))
	return func() int { return random.IntN(d.keys) }
}

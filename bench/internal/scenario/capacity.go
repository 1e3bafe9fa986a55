package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/cgroup"
	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

// nobody is the series of calls that no limiter decides: each is answered at once.
const nobody = "no limiter"

var overloadCapacity = Scenario{
	Name:  "overload-capacity",
	Title: "load above what can be served",
	Question: `As keys, on 50,000 keys, with more load than can be served. Callers call in a loop and come back at once,
also when a call has failed. Or calls come at random (Poisson), whatever is answered: at a multiple of the capacity,
which is the most that the same limiter served callers in a loop in the same round. At most 20,000 of these calls are
under way: one that finds so many is not made. "no limiter" is how many of the calls that shardlimit is offered the
machine can make if each is answered at once. Load, client and server share the machine, so calls that fail take CPU
from those that are served, as they do in a server that is short of it. Goodput is the decisions per second, without
calls that failed.`,
	X: "load",
	Views: []report.View{
		{Metric: "rate", Title: "Goodput", Head: "Goodput under overload", Unit: "decisions/s", Keep: true,
			Drawn: compared,
			At:    []string{"64 callers", "1000 callers", "10000 callers", "1 times", "2 times", "10 times"}},
		{Metric: "kept", Title: "Goodput, % of the most that callers in a loop got in the round", Unit: "%"},
	},
	Run: func(ctx context.Context, s *Sheet) error { return s.overload(ctx, cgroup.Quota{}) },
}

var overloadServer = Scenario{
	Name:  "overload-server",
	Title: "load above what the server can serve",
	Question: `As overload-capacity, but the server gets a tenth of a core. So the server is what is short, and not the
process that makes the calls.`,
	X: "load",
	Views: []report.View{
		{Metric: "rate", Title: "Goodput", Unit: "decisions/s"},
		{Metric: "kept", Title: "Goodput, % of the most that callers in a loop got in the round", Unit: "%"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		q := cgroup.Quota{Time: time.Millisecond, Period: 10 * time.Millisecond}
		s.setting("Server", "%s of CPU time in every %s", q.Time, q.Period)
		return s.unlessUncapped(s.overload(ctx, q))
	},
}

// overload plays loads from callers in a loop to ten times what they got, on servers that are
// capped if there is a quota.
func (s *Sheet) overload(ctx context.Context, q cgroup.Quota) error {
	c := keysCase{name: "50k", keys: 50_000, limit: keysUsual, callers: s.numbers(16, 64, 1000, 10_000)}
	times := []float64{.5, 1, 2, 10}
	if s.Smoke {
		c.keys, times = 200, []float64{2}
	}
	rounds, span := s.turns(2), s.span(4*time.Second)
	s.setting("Limit of a key", "%d permits per %s, not reached; %d keys", c.limit.Permits, c.limit.Per, c.keys)
	s.setting("Rounds", "%d of %s for each point, each with a new client and an empty server", rounds, span)
	s.setting("Calls under way", "at most %d of those that come whatever is answered", s.underWay())
	var columns []string
	for _, n := range c.callers {
		columns = append(columns, fmt.Sprintf("%d callers", n))
	}
	for _, n := range times {
		columns = append(columns, fmt.Sprintf("%v times", n))
	}
	s.cases(columns...)
	if err := s.keyed(ctx); err != nil {
		return err
	}
	names := keyNames(c.keys)
	return s.inTurns(rounds, len(s.Rivals), func(round, i int) error {
		r, draws, most := s.Rivals[i], draws{c.keys, uint64(round)}, 0.0
		found := make([]figures, len(columns))
		for x := range columns {
			err := s.squeezed(ctx, q, r, c.limit, func(t turn) (err error) {
				if x < len(c.callers) {
					l := loop{who: r.Name, callers: c.callers[x], span: span, cold: true}
					l.each = draws.calls(names, t.allow)
					found[x], err = s.closed(ctx, t.on, l)
					most = max(most, found[x]["rate"])
					return err
				}
				rate := max(1, most*times[x-len(c.callers)])
				found[x], err = s.flood(ctx, r.Name, rate, span, names, uint64(round), t.allow)
				if err == nil && r.Name == rival.Shardlimit.Name {
					var made figures
					if made, err = s.flood(ctx, nobody, rate, span, names, uint64(round), atOnce); err == nil {
						s.Note(nobody, float64(x), made)
					}
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", columns[x], err)
			}
		}
		for x := range found {
			found[x]["kept"] = 100 * found[x]["rate"] / max(1, most)
			s.Note(r.Name, float64(x), found[x])
		}
		return nil
	})
}

// squeezed lets play have a turn as fresh does, on a server that is capped if there is a quota.
func (s *Sheet) squeezed(ctx context.Context, q cgroup.Quota, r rival.Rival, limit rival.Limit,
	play func(turn) error) error {
	if q == (cgroup.Quota{}) {
		return s.fresh(ctx, nil, r, limit, play)
	}
	c, err := s.startCapped(ctx, 1, q)
	if err != nil {
		return err
	}
	defer c.close()
	return s.fresh(ctx, c.Farm, r, limit, play)
}

// flood has so many calls a second come, whatever is answered.
func (s *Sheet) flood(ctx context.Context, who string, rate float64, span time.Duration, names []string, seed uint64,
	allow rival.AllowKey) (figures, error) {
	plan := load.OpenPlan{Arrivals: load.Poisson(rate, len(names), seed), For: span, Workers: s.underWay(), Drop: true}
	runtime.GC() // as before a loop
	got, err := load.Open(ctx, plan, func(ctx context.Context, d load.Due) (bool, error) {
		return allow(ctx, names[d.Who])
	})
	s.example(who, got.Err)
	return figures{"rate": float64(got.Decisions()) / got.Elapsed.Seconds()}, err
}

// underWay is how many calls of a flood can be, at the most.
func (s *Sheet) underWay() int { return s.numbers(64, 20_000)[0] }

// atOnce answers at once.
func atOnce(context.Context, string) (bool, error) { return true, nil }

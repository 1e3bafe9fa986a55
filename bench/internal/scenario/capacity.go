package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

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
	Run: func(ctx context.Context, s *Sheet) error {
		c := keysCase{name: "50k", keys: 50_000, limit: keysUsual, callers: s.numbers(16, 64, 1000, 10_000)}
		times, underWay := []float64{.5, 1, 2, 10}, 20_000
		if s.Smoke {
			c.keys, times, underWay = 200, []float64{2}, 64
		}
		rounds, span := s.turns(2), s.span(4*time.Second)
		s.setting("Limit of a key", "%d permits per %s, not reached; %d keys", c.limit.Permits, c.limit.Per, c.keys)
		s.setting("Rounds", "%d of %s for each point, each with a new client and an empty server", rounds, span)
		s.setting("Calls under way", "at most %d of those that come whatever is answered", underWay)
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
				err := s.fresh(ctx, nil, r, c.limit, func(t turn) (err error) {
					if x < len(c.callers) {
						l := loop{who: r.Name, callers: c.callers[x], span: span, cold: true}
						l.each = draws.calls(names, t.allow)
						found[x], err = s.closed(ctx, t.on, l)
						most = max(most, found[x]["rate"])
						return err
					}
					flood := func(who string, allow rival.AllowKey) (figures, error) {
						plan := load.OpenPlan{For: span, Workers: underWay, Drop: true}
						plan.Arrivals = load.Poisson(max(1, most*times[x-len(c.callers)]), c.keys, uint64(round))
						return s.flood(ctx, who, plan, func(ctx context.Context, d load.Due) (bool, error) {
							return allow(ctx, names[d.Who])
						})
					}
					if found[x], err = flood(r.Name, t.allow); err == nil && r.Name == rival.Shardlimit.Name {
						var made figures
						made, err = flood(nobody, func(context.Context, string) (bool, error) { return true, nil })
						if err == nil {
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
	},
}

// flood has calls come whatever is answered.
func (s *Sheet) flood(ctx context.Context, who string, plan load.OpenPlan,
	serve func(context.Context, load.Due) (bool, error)) (figures, error) {
	runtime.GC() // as before a loop
	got, err := load.Open(ctx, plan, serve)
	s.example(who, got.Err)
	return figures{"rate": float64(got.Decisions()) / got.Elapsed.Seconds()}, err
}

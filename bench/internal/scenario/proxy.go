package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

var proxy = Scenario{
	Name:  "proxy",
	Title: "what a proxy of a language model pays to admit a request and to settle it",
	Question: `One process on one core, one server, 200,000 customers. To admit a request, a Set takes one of a customer's
requests, an estimate of its tokens, and as much of a limit that all customers share. Then the Set is settled with fewer
tokens. Limits of customers come with the calls. No limit is reached. "all customers once" calls each customer once.`,
	X: "callers",
	Views: []report.View{
		{Metric: "rate", Title: "Admissions per second, each settled", Unit: "admissions/s"},
		{Metric: "scripts", Title: "Script calls per admission", Unit: "calls"},
		{Metric: "heap", Title: "Heap that is kept of the customers", Unit: "MB"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		customers, rounds, span := 200_000, s.turns(2), s.span(2500*time.Millisecond)
		if s.Smoke {
			customers = 200
		}
		callers, names := s.numbers(16, 1, 64, 1000), keyNames(customers)
		s.setting("Rounds", "%d of %s for each point", rounds, span)
		columns := []string{}
		for _, n := range callers {
			columns = append(columns, fmt.Sprint(n))
		}
		s.cases(append(columns, "all customers once")...)
		before := heap()
		return s.inTurns(rounds, 1, func(round, _ int) error {
			on, err := s.start(ctx, 1)
			if err != nil {
				return err
			}
			defer on.Close()
			client, err := shardlimit.New(rival.Config(on.Addr()))
			if err != nil {
				return err
			}
			defer client.Close()
			admit, err := admission(ctx, client)
			if err != nil {
				return err
			}
			if err := callOnce(ctx, admit, names, true); err != nil {
				return err
			}
			s.Note("shardlimit", float64(len(callers)), figures{"heap": heap() - before})
			for i, n := range callers {
				found, err := s.closed(ctx, on, loop{who: "shardlimit", callers: n, span: span, cold: true,
					each: draws{customers, uint64(round)}.calls(names, admit)})
				if err != nil {
					return err
				}
				s.Note("shardlimit", float64(i), found)
			}
			return nil
		})
	},
}

// admission returns what admits a request of a customer and settles it.
func admission(ctx context.Context, client *shardlimit.Client) (rival.AllowKey, error) {
	requests, err := client.Family(ctx, "requests", shardlimit.PerMinute(60))
	if err != nil {
		return nil, err
	}
	tokens, err := client.Family(ctx, "tokens", shardlimit.PerMinute(90_000))
	if err != nil {
		return nil, err
	}
	provider, err := client.Limiter(ctx, "provider", shardlimit.PerMinute(1_000_000_000_000))
	if err != nil {
		return nil, err
	}
	plan, most := shardlimit.Limit{Permits: 6000, Revision: 1}, shardlimit.Limit{Permits: 9_000_000, Revision: 1}
	return func(ctx context.Context, customer string) (bool, error) {
		call := shardlimit.All(requests.LimiterWith(customer, plan).N(1), tokens.LimiterWith(customer, most).N(900),
			provider.As(customer, 1).N(900))
		d, err := call.Allow(ctx)
		if err != nil || !d.Allowed {
			return false, err
		}
		return true, call.Settle(ctx, d, 1, 600, 600)
	}, nil
}

// heap is what is in use, in MB.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first leaves for finalizers
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}

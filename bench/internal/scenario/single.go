package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// drawn are the rivals that pictures show.
var drawn = []string{"shardlimit", "script", "gcra", "increx", "redis_rate", "rueidislimiter", "ulule", "go-zero"}

// compared are the rivals in pictures of many cases.
var compared = []string{"shardlimit", "gcra", "redis_rate", "rueidislimiter"}

// never is never reached. A million decisions a second fit into it, and its interval is not below
// the clock of rivals that compute one.
var never = rival.Limit{Permits: 5_000_000, Per: time.Second}

var exact = Scenario{
	Name:  "exact",
	Title: "decisions per second of one process on one node",
	Question: `One process, one server, one limit that is never reached, from one goroutine to thousands, each calling
Allow in a loop. Every decision is exact: every rival asks the server each time. What "shardlimit" gains over "script",
which is our own script called once for each decision through rueidis, coalescing gains.`,
	X: "goroutines",
	Views: []report.View{
		{Metric: "rate", Title: "Decisions per second", Head: "Decisions per second of one limit", Unit: "decisions/s",
			LogX: true, LogY: true, Keep: true, Drawn: drawn},
		{Metric: "cpu", Title: "Client CPU per decision", Unit: "µs"},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		rounds, span := s.turns(3), s.span(800*time.Millisecond)
		s.setting("Limit", "%d permits per %s, never reached", never.Permits, never.Per)
		s.setting("Rounds", "%d of %s for each point, after %s to warm up", rounds, span, span/4)
		return s.rivals(ctx, never, rounds, func(on server.Farm, name string, _ int, allow rival.Allow) error {
			return s.grown(ctx, on, loop{who: name, span: span}, allow, s.numbers(64, 1, 4, 16, 64, 256, 1024, 8192))
		})
	},
}

// grown runs a loop of a limiter with ever more callers.
func (s *Sheet) grown(ctx context.Context, on server.Farm, l loop, allow rival.Allow, callers []int) error {
	l.each = func(int) load.Call { return allow }
	for _, l.callers = range callers {
		found, err := s.closed(ctx, on, l)
		if err != nil {
			return err
		}
		s.Note(l.who, float64(l.callers), found)
	}
	return nil
}

var denial = Scenario{
	Name:  "denial",
	Title: "what a denial costs the client",
	Question: `A limit that has nothing free for an hour, asked in a loop by one goroutine and by many. CPU is
that of the whole process. A denial that is already known to the process needs no call at all.`,
	X:     "goroutines",
	Views: []report.View{{Metric: "cpu-ns", Title: "Client CPU of a denial", Unit: "ns"}},
	Run: func(ctx context.Context, s *Sheet) error {
		empty := rival.Limit{Permits: 16, Per: time.Hour}
		rounds, span := s.turns(3), s.span(500*time.Millisecond)
		s.setting("Limit", "%d permits per %s, used up", empty.Permits, empty.Per)
		s.setting("Rounds", "%d of %s for each point", rounds, span)
		return s.rivals(ctx, empty, rounds, func(on server.Farm, name string, _ int, allow rival.Allow) error {
			for n := int64(0); ; n++ {
				ok, err := allow(ctx)
				if err != nil {
					return err
				}
				if !ok {
					break
				}
				if n > 2*empty.Permits {
					return fmt.Errorf("%d calls have not used up %d permits", n, empty.Permits)
				}
			}
			return s.grown(ctx, on, loop{who: name, span: span, denied: true}, allow, s.numbers(64, 1, 64))
		})
	},
}

var latency = Scenario{
	Name:  "latency",
	Title: "time to a decision at a part of each rival's capacity",
	Question: `Calls arrive at random (Poisson), whether or not earlier ones have been answered, at 10, 50 and 80 % of
what the rival can do. The capacity is found first, in each round, as the median of three looks, with far more calls
due. A latency counts from the instant at which the call should have been sent, so a stall shows in every call that it
made late (no coordinated omission). Each row is at a part of its own capacity.`,
	X: "% of capacity",
	Views: []report.View{
		{Metric: "p99", Title: "99th percentile of the latency", Unit: "µs", Nominal: true, LogY: true, Keep: true,
			Drawn: drawn},
	},
	Run: func(ctx context.Context, s *Sheet) error {
		const workers, looks, flood = 512, 3, 5e6
		loads := []float64{10, 50, 80}
		rounds, span := s.turns(3), s.span(1500*time.Millisecond)
		s.setting("Limit", "%d permits per %s, never reached", never.Permits, never.Per)
		s.setting("Rounds", "%d of %s for each point, after %d of %s to find the capacity", rounds, span, looks, span/6)
		s.setting("Workers", "at most %d calls are under way", workers)
		return s.rivals(ctx, never, rounds, func(_ server.Farm, name string, round int, allow rival.Allow) error {
			offer := func(rate float64, seed uint64, span time.Duration) (load.OpenSample, error) {
				return load.Open(ctx, load.OpenPlan{Arrivals: load.Poisson(rate, 1, seed), For: span, Workers: workers},
					func(ctx context.Context, _ load.Due) (bool, error) { return allow(ctx) })
			}
			var rates []float64
			for range looks {
				got, err := offer(flood, uint64(round), span/6)
				if err != nil {
					return err
				}
				rates = append(rates, float64(got.Decisions())/got.Elapsed.Seconds())
			}
			capacity := report.Median(rates...)
			if capacity == 0 {
				s.Result.Remark("%s made not one decision with %d calls under way.", name, workers)
				return nil
			}
			for i, percent := range loads {
				got, err := offer(capacity*percent/100, uint64(100*round+i), span)
				if err != nil {
					return err
				}
				s.Note(name, percent, s.paced(name, got, false))
			}
			return nil
		})
	},
}

// paced is what calls found that came at a pace.
func (s *Sheet) paced(who string, got load.OpenSample, denied bool) figures {
	s.wrong(who, got.Sample, denied)
	if got.Unsent > 0 {
		s.Result.Remark("%s could not keep the pace: %d of %d calls were not made.", who, got.Unsent,
			got.Unsent+got.Decisions()+got.Failed)
	}
	return figures{"p99": micros(got.Times.Percentile(99)),
		"rate": float64(got.Decisions()) / got.Elapsed.Seconds()}
}

var lone = Scenario{
	Name:  "lone",
	Title: "what a single caller pays for coalescing",
	Question: `One goroutine, one call at a time: nobody to share a round trip with. Compared are Allow, the same take as
a bare EVALSHA with ready-made arguments on a connection of its own. They take turns every hundred calls.`,
	X:     "percentile",
	Views: []report.View{{Metric: "latency", Title: "Latency of a lone call", Unit: "µs"}},
	Run: func(ctx context.Context, s *Sheet) error {
		const block = 100 // calls in a row before the next one's turn
		rounds, span := s.turns(7), s.span(3*time.Second)
		s.setting("Limit", "%d permits per %s, never reached", never.Permits, never.Per)
		s.setting("Rounds", "%d of %s, in turns of %d calls", rounds, span, block)
		on, err := s.start(ctx, 1)
		if err != nil {
			return err
		}
		defer on.Close()
		ours, err := open(ctx, "shardlimit", func() (rival.Handle, error) {
			return rival.Shardlimit.Open(ctx, on.Addr(), never)
		})
		if err != nil {
			return err
		}
		defer ours.Close()
		client, err := rueidis.NewClient(server.Option(on.Addr()))
		if err != nil {
			return err
		}
		defer client.Close()
		allow, err := ours.Limiter(ctx, "lone")
		if err != nil {
			return err
		}
		bare, err := replay.Capture(ctx, client, "lone-bare", never.Permits, never.Per)
		if err != nil {
			return err
		}
		names := []string{"shardlimit", "EVALSHA"}
		calls := []func() error{
			func() error { return until(ctx, true, allow) },
			func() error { return client.Do(ctx, client.B().Arbitrary(bare...).Build()).Error() },
		}
		for round := range rounds {
			times := []*load.Latencies{load.NewLatencies(), load.NewLatencies()}
			for began := time.Now(); time.Since(began) < span; {
				for k := range calls {
					i := (k + round) % len(calls)
					for range block {
						asked := time.Now()
						if err := calls[i](); err != nil {
							return err
						}
						times[i].Add(0, time.Since(asked))
					}
				}
			}
			for i, name := range names {
				s.Note(name, 50, figures{"latency": micros(times[i].Percentile(50))})
			}
			s.Progress("round %d of %d done", round+1, rounds)
		}
		return nil
	},
}

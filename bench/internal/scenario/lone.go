package scenario

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/stat"
)

var lone = Scenario{
	Name:  "lone",
	Title: "what a single caller pays for coalescing",
	Takes: 7 * time.Second,
	Question: `One goroutine, one call at a time: nobody to share a round trip with. Compared are
Allow, the same take as a bare EVALSHA with ready-made arguments on a connection
of its own, and PING, the least a round trip can cost. They take turns every
hundred calls. The difference is that of the medians of the same round: what
queueing, bookkeeping and telemetry add to the script call.`,
	Run: runLone,
}

const loneBlock = 100 // calls in a row before the next contestant's turn

var loneLimit = rival.Limit{Permits: 5_000_000, Per: time.Second}

// contestant makes one call.
type contestant struct {
	name string
	call func(context.Context) error
}

func runLone(ctx context.Context, env Env, result *report.Result) error {
	rounds, span := env.rounds(7), env.span(200*time.Millisecond, 3*time.Second)
	result.Views = []report.View{
		{Metric: "latency", Title: "Latency of a lone call", Unit: "µs", X: "percentile", Plot: true, Nominal: true,
			LogY: true},
		{Metric: "mean", Title: "Mean latency, and the difference of the medians", Unit: "µs", X: "goroutines"},
	}
	setting(result, "Limit", "%s permits per %s, never reached", report.Count(float64(loneLimit.Permits)),
		loneLimit.Per)
	setting(result, "Rounds", "%d of %s, in turns of %d calls", rounds, span, loneBlock)

	s, err := env.start(ctx, result)
	if err != nil {
		return err
	}
	defer s.Close()
	contestants, end, err := loneContestants(ctx, s)
	if err != nil {
		return err
	}
	defer end()
	times := make([][][]int64, rounds) // by round and contestant, sorted, nanoseconds
	for round := range rounds {
		times[round], err = loneRound(ctx, contestants, round, span)
		if err != nil {
			return err
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	addLone(result, contestants, times)
	return nil
}

func loneContestants(ctx context.Context, s *server.Server) (_ []contestant, end func(), err error) {
	handle, err := rival.Shardlimit.Open(ctx, s.Addr(), loneLimit)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(server.Option(s.Addr()))
	if err != nil {
		handle.Close()
		return nil, nil, err
	}
	end = func() { client.Close(); handle.Close() }
	allow, err := handle.Limiter(ctx, "lone")
	if err == nil {
		var bare replay.Command
		_, bare, err = replay.Capture(ctx, client, "lone-bare", loneLimit.Permits, loneLimit.Per, 1)
		if err == nil {
			return []contestant{
				{"shardlimit", func(ctx context.Context) error { return allowed(allow(ctx)) }},
				{"EVALSHA", func(ctx context.Context) error { return client.Do(ctx, bare.Build(client)).Error() }},
				{"PING", func(ctx context.Context) error { return client.Do(ctx, client.B().Ping().Build()).Error() }},
			}, end, nil
		}
	}
	end()
	return nil, nil, err
}

func allowed(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("a call was denied although the limit was not reached")
	}
	return err
}

// loneRound lets the contestants take turns for span in all and returns the
// sorted times of each.
func loneRound(ctx context.Context, contestants []contestant, round int, span time.Duration) ([][]int64, error) {
	times := make([][]int64, len(contestants))
	for began := time.Now(); time.Since(began) < span; {
		for _, i := range rotated(len(contestants), round) {
			for range loneBlock {
				t := time.Now()
				if err := contestants[i].call(ctx); err != nil {
					return nil, err
				}
				times[i] = append(times[i], int64(time.Since(t)))
			}
		}
	}
	for _, t := range times {
		slices.Sort(t)
	}
	return times, nil
}

func addLone(result *report.Result, contestants []contestant, times [][][]int64) {
	for i, c := range contestants {
		for _, percentile := range []float64{50, 90, 99, 99.9} {
			var each []float64
			for round := range times {
				each = append(each, stat.Quantile(times[round][i], percentile/100)/1e3)
			}
			result.Add(c.name, percentile, "latency", each...)
		}
		var means []float64
		for round := range times {
			means = append(means, mean(times[round][i])/1e3)
		}
		result.Add(c.name, 1, "mean", means...)
	}
	var extra []float64
	for round := range times {
		extra = append(extra, (stat.Quantile(times[round][0], 0.5)-stat.Quantile(times[round][1], 0.5))/1e3)
	}
	result.Add("shardlimit minus EVALSHA (medians)", 1, "mean", extra...)
}

func mean(times []int64) float64 {
	var sum float64
	for _, t := range times {
		sum += float64(t)
	}
	return sum / float64(max(len(times), 1))
}

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// exactApart is exact, followed by the rivals that are not of rival.All because
// they are no functions that answer at once in this process: Redisson, whose JVM
// makes the same closed loop with threads, and uber/ratelimit. They have a
// server and rounds of their own; a JVM that idled beside the others' rounds
// would disturb them.
var exactApart = Scenario{Name: exact.Name, Title: exact.Title, Question: exact.Question, Takes: exact.Takes,
	Run: func(ctx context.Context, env Env, result *report.Result) error {
		if err := exact.Run(ctx, env, result); err != nil || !env.Uber && !env.Redisson {
			return err
		}
		return runApart(ctx, env, result)
	}}

// jvmWarm is how long a JVM runs before its calls count: it compiles what it runs often.
const jvmWarm = time.Second

// apartThreads bounds the threads of the JVM: more only wait for its connections.
const apartThreads = 256

func runApart(ctx context.Context, env Env, result *report.Result) error {
	goroutines := env.Goroutines
	if len(goroutines) == 0 {
		goroutines = []int{1, 4, 16, 64, 256}
		if env.Smoke {
			goroutines = []int{64}
		}
	}
	rounds, span := env.rounds(exactRounds), env.span(100*time.Millisecond, exactSpan)
	setting(result, "Apart",
		"after the others: %s, up to %d threads of its JVM, and %s, which lets no more than the limit through and "+
			"denies nothing",
		rival.RedissonName, apartThreads, rival.Uber.Name)
	s, err := server.Start(ctx, env.Redis)
	if err != nil {
		return err
	}
	defer s.Close()
	if env.Uber {
		if err := uberApart(ctx, env, result, s, goroutines, rounds, span); err != nil {
			return fmt.Errorf("%s: %w", rival.Uber.Name, err)
		}
	}
	return redissonApart(ctx, env, result, s, goroutines, rounds, span)
}

func uberApart(ctx context.Context, env Env, result *report.Result, s *server.Server, goroutines []int, rounds int,
	span time.Duration) error {
	uber, err := rival.Uber.Open(ctx, s.Addr(), exactLimit)
	if err != nil {
		return err
	}
	defer uber.Close()
	for _, g := range goroutines {
		var rates []exactRound
		for round := range rounds {
			r, err := measureExact(ctx, s, uber, apartName(g, round),
				load.Plan{Goroutines: g, Warm: span / 4, For: span})
			if err != nil {
				return err
			}
			rates = append(rates, r)
		}
		addExact(result, rival.Uber, g, rates)
		env.Progress("%s: %d goroutines done", rival.Uber.Name, g)
	}
	return nil
}

func redissonApart(ctx context.Context, env Env, result *report.Result, s *server.Server, goroutines []int, rounds int,
	span time.Duration) error {
	redisson, err := env.redisson(ctx, result, s.Addr(), exactLimit, 1)
	if err != nil || redisson == nil {
		return err
	}
	defer redisson.Close()
	found := newFindings()
	for _, g := range goroutines {
		if g > apartThreads {
			continue
		}
		for round := range rounds {
			if err := measureRedisson(ctx, s, redisson, apartName(g, round), g, span, found, result); err != nil {
				return fmt.Errorf("%s: %w", rival.RedissonName, err)
			}
		}
		env.Progress("%s: %d threads done", rival.RedissonName, g)
	}
	found.addTo(result)
	return nil
}

func apartName(goroutines, round int) string { return fmt.Sprintf("apart-%d-%d", goroutines, round) }

// measureRedisson notes the same quantities that addExact does.
func measureRedisson(ctx context.Context, s *server.Server, r *rival.Redisson, name string, threads int,
	span time.Duration, found *findings, result *report.Result) error {
	before, err := s.Usage(ctx)
	if err != nil {
		return err
	}
	l, err := r.Load(ctx, name, threads, jvmWarm, span)
	if err != nil {
		return err
	}
	after, err := s.Usage(ctx)
	if err != nil {
		return err
	}
	if l.Decisions() == 0 {
		result.Remark("%s made not one decision in %s with %d threads; %d calls failed.", rival.RedissonName, span,
			threads, l.Failed)
		return nil
	}
	used, n, x := after.Since(before), float64(l.Decisions()), float64(threads)
	found.add(rival.RedissonName, x, "rate", n/l.Elapsed.Seconds())
	found.add(rival.RedissonName, x, "cpu", micros(l.CPU)/n)
	if used.Scripts > 0 { // with the warm-up's, which the JVM does not count
		found.add(rival.RedissonName, x, "server-cpu", used.CPU*1e6/float64(used.Scripts))
	}
	if l.Failed > 0 {
		found.add(rival.RedissonName, x, "failed", 100*float64(l.Failed)/(n+float64(l.Failed)))
	}
	return nil
}

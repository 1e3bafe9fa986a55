package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out,
		"usage: go -C bench run . SCENARIO[,SCENARIO...] [flags]\n\nscenarios, and how long they take with --time "+
			"0.3 on two "+
			"cores:\n")
	for _, s := range scenario.All() {
		fmt.Fprintf(out, "  %-11s %5s  %s\n", s.Name, s.Takes, s.Title)
	}
	for _, set := range []struct {
		name, what string
		takes      time.Duration
	}{
		{"all", "all of them, one after the other", scenario.Estimate(scenario.Env{}, scenario.All()...)},
		{"performance", "those that docs/performance.md shows",
			scenario.Estimate(scenario.Env{}, scenario.Performance()...)},
		{"report", "write the report and the figures in README.md and docs from the stored results", 0},
		{"draw", "draw all pictures from the stored results, into --out", 0},
	} {
		fmt.Fprintf(out, "  %-11s %5s  %s\n", set.name, set.takes.Round(time.Minute), set.what)
	}
	fmt.Fprint(out, "\nrivals:\n")
	for _, r := range rival.All() {
		fmt.Fprintf(out, "  %-15s %s\n", r.Name, r.Algorithm)
	}
	fmt.Fprintf(out, "  %-15s %s\n  %-15s %s\n", rival.Uber.Name, rival.Uber.Algorithm, rival.RedissonName,
		"its real RRateLimiter, in a JVM")
	fmt.Fprint(out, "\nflags:\n")
	flags.PrintDefaults()
	fmt.Fprint(out, "\nexample: go -C bench run . exact --rivals shardlimit,redis_rate --goroutines 1,64,1024\n")
}

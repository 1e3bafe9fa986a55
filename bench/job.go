package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

var errUsage = errors.New("usage")

// job is what the command line asks for.
type job struct {
	scenarios []scenario.Scenario // none: only write the document
	env       scenario.Env
	results   string // folder
	document  string // file; "" for none
	readme    string // file with short tables; "" for none
	command   string
	machine   report.Machine // as the program found it
	out       io.Writer
}

func parse(args []string, out io.Writer) (*job, error) {
	j := &job{out: out, machine: report.ThisMachine(),
		command: strings.Join(append([]string{"go -C bench run ."}, args...), " ")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { usage(flags) }
	var goroutines, rivals, cases string
	flags.BoolVar(&j.env.Smoke, "smoke", false,
		"try everything once, quickly; the figures mean nothing and are kept out of the results")
	flags.IntVar(&j.env.Rounds, "rounds", 0, "how often each point is measured (0: the scenario's choice)")
	flags.DurationVar(&j.env.For, "for", 0, "how long each point is measured (0: the scenario's choice)")
	flags.Float64Var(&j.env.Time, "time", 1, "factor on how long each point is measured, where --for is not given")
	flags.StringVar(&goroutines, "goroutines", "",
		"numbers of goroutines, with commas (default: the scenario's choice)")
	flags.StringVar(&cases, "cases", "", "names of the cases of fairness or keys, with semicolons (default: all)")
	flags.StringVar(&rivals, "rivals", "", "names of rivals, with commas (default: all)")
	flags.StringVar(&j.env.Redis, "redis-server", "redis-server", "the program to start as servers")
	flags.StringVar(&j.results, "out", "",
		"folder for JSON and SVG (default: results, with --smoke a temporary folder)")
	flags.StringVar(&j.document, "document", filepath.Join("..", "docs", "benchmarks.md"),
		"Markdown file to write from the results; not written with --smoke or --out")

	flags.StringVar(&j.readme, "readme", filepath.Join("..", "README.md"),
		"Markdown file whose short tables are brought up to date with the document")

	if len(args) == 0 {
		usage(flags)
		return nil, fmt.Errorf("%w: name a scenario", errUsage)
	}
	name := args[0]
	if strings.HasPrefix(name, "-") {
		name, args = "", append([]string{""}, args...)
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("%w: %q is too much; flags follow the scenario", errUsage, flags.Arg(0))
	}
	if cases != "" {
		for name := range strings.SplitSeq(cases, ";") {
			j.env.Cases = append(j.env.Cases, strings.TrimSpace(name))
		}
	}
	return j, j.complete(name, goroutines, rivals)
}

// complete checks what the flags said and fills in what they did not say.
func (j *job) complete(name, goroutines, rivals string) error {
	var err error
	if j.scenarios, err = named(name); err != nil {
		return err
	}
	if j.env.Lineup, err = rival.Named(rivals); err != nil {
		return fmt.Errorf("%w: --rivals: %w", errUsage, err)
	}
	if j.env.Goroutines, err = numbers(goroutines); err != nil {
		return fmt.Errorf("%w: --goroutines: %w", errUsage, err)
	}
	if j.env.Rounds < 0 || j.env.For < 0 {
		return fmt.Errorf("%w: --rounds and --for cannot be negative", errUsage)
	}
	if !(j.env.Time > 0 && j.env.Time <= 100) {
		return fmt.Errorf("%w: --time must be above 0, and at most 100", errUsage)
	}
	if j.env.Smoke || j.results != "" {
		j.document, j.readme = "", ""
	}
	if j.results == "" && !j.env.Smoke {
		j.results = "results"
	}
	return nil
}

func named(name string) ([]scenario.Scenario, error) {
	switch name {
	case "all":
		return scenario.All(), nil
	case "report":
		return nil, nil
	}
	var names []string
	for _, s := range scenario.All() {
		if s.Name == name {
			return []scenario.Scenario{s}, nil
		}
		names = append(names, s.Name)
	}
	return nil,
		fmt.Errorf("%w: no scenario is named %q; there are %s, all and report", errUsage, name,
			strings.Join(names, ", "))
}

func numbers(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var ns []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("%q is not a number of 1 to %d", word, 1<<20)
		}
		ns = append(ns, n)
	}
	return ns, nil
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out,
		"usage: go -C bench run . SCENARIO [flags]\n\nscenarios, and how long they take with --time 0.3 on two "+
			"cores:\n")
	for _, s := range scenario.All() {
		fmt.Fprintf(out, "  %-10s %5s  %s\n", s.Name, s.Takes, s.Title)
	}
	fmt.Fprintf(out, "  %-10s %5s  all of them, one after the other\n", "all",
		scenario.Estimate(scenario.Env{}, scenario.All()...).Round(time.Minute))
	fmt.Fprintf(out,
		"  %-10s %5s  only write docs/benchmarks.md and the table in README.md from the stored results\n\nrivals:\n",
		"report", time.Second)
	for _, r := range rival.All() {
		fmt.Fprintf(out, "  %-15s %s\n", r.Name, r.Algorithm)
	}
	fmt.Fprintf(out, "  %-15s %s\n  %-15s %s\n", rival.Uber.Name, rival.Uber.Algorithm, rival.RedissonName,
		"its real RRateLimiter, in a JVM")
	fmt.Fprint(out, "\nflags:\n")
	flags.PrintDefaults()
	fmt.Fprint(out, "\nexample: go -C bench run . exact --rivals shardlimit,redis_rate --goroutines 1,64,1024\n")
}

func (j *job) do(ctx context.Context) error {
	if j.results == "" {
		dir, err := os.MkdirTemp("", "shardlimit-smoke-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		j.results = dir
	}
	var failed []error // one scenario must not cost the others of a long run
	for i, s := range j.scenarios {
		if !j.env.Smoke {
			fmt.Fprintf(j.out, "%s: scenario %d of %d, about %s of %s\n", s.Name, i+1, len(j.scenarios), j.estimate(s),
				j.estimate(j.scenarios[i:]...))
		}
		if err := j.measure(ctx, s); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
			fmt.Fprintln(j.out, "bench:", failed[len(failed)-1])
		}
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
	if j.document != "" {
		var names []string
		for _, s := range scenario.All() {
			names = append(names, s.Name)
		}
		failed = append(failed, report.Document(j.document, j.results, names))
		if j.readme != "" {
			failed = append(failed, report.Excerpts(j.readme, j.results))
		}
	}
	return errors.Join(failed...)
}

func (j *job) estimate(scenarios ...scenario.Scenario) time.Duration {
	return scenario.Estimate(j.env, scenarios...).Round(time.Second)
}

func (j *job) measure(ctx context.Context, s scenario.Scenario) error {
	began := time.Now()
	result := &report.Result{
		Scenario: s.Name,
		Title:    s.Title,
		Question: s.Question,
		Command:  j.command,
		Smoke:    j.env.Smoke,
		Began:    began,
		Machine:  j.machine,
		Software: report.GoVersions(modules(j.env.Lineup)...),
	}
	env := j.env
	env.Progress = func(format string, a ...any) {
		fmt.Fprintf(j.out, "%s %4.0fs: %s\n", s.Name, time.Since(began).Seconds(), fmt.Sprintf(format, a...))
	}
	if j.machine.Busy() {
		result.Remark("Others used the machine when this began (load averages %s on %d cores): compare within a "+
			"table, and do not take its figures for more.", j.machine.Load, j.machine.Cores)
	}
	failed := s.Run(ctx, env, result)
	if failed != nil {
		if len(result.Points) == 0 {
			return failed
		}
		result.Remark("Not everything could be measured: %s.", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	result.Took = time.Since(began).Round(time.Second).String()
	files, err := result.Write(j.results)
	if err == nil {
		env.Progress("wrote %s", strings.Join(files, ", "))
	}
	return errors.Join(failed, err)
}

// modules are the modules whose versions belong into a result.
func modules(lineup rival.Lineup) []string {
	paths := []string{"github.com/redis/rueidis", "github.com/redis/go-redis/v9"}
	rivals := lineup.Rivals
	if lineup.Uber {
		rivals = append(slices.Clone(rivals), rival.Uber)
	}
	for _, r := range rivals {
		if r.Module != "" {
			paths = append(paths, r.Module)
		}
	}
	return paths
}

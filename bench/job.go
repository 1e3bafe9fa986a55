package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
)

var errUsage = errors.New("usage")

// stored is the folder of the results that are committed.
const stored = "results"

// job is what the command line asks for.
type job struct {
	scenarios []scenario.Scenario // none: only bring the pages up to date
	env       scenario.Env
	results   string // folder
	pages     string // folder of README.md and docs, whose figures are brought up to date; "" for none
	busy      string // what to do if others use the machine: refuse, wait or mark
	draw      bool   // all pictures, from the stored results
	command   string
	machine   report.Machine // as the program found it
	out       io.Writer

	// Tests put others into their place.
	proc  string        // where Linux tells of itself
	look  func() string // the load averages now
	sleep func(ctx context.Context, d time.Duration)
}

func parse(args []string, out io.Writer) (*job, error) {
	j := &job{out: out, machine: report.ThisMachine(), proc: quiet.Proc, look: report.LoadAverages, sleep: pause,
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
	flags.StringVar(&j.pages, "pages", "..",
		"folder of README.md and docs, whose tables and figures are brought up to date")
	flags.StringVar(&j.busy, "busy", refuse, "what to do if others use the machine: refuse; wait up to "+
		waitAtMost.String()+" for it; mark the results in red")

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
	if j.draw = name == "draw"; j.draw && j.results == "" {
		return fmt.Errorf("%w: draw needs --out, a folder for the pictures", errUsage)
	}
	if !slices.Contains([]string{refuse, wait, mark}, j.busy) {
		return fmt.Errorf("%w: --busy must be %s, %s or %s", errUsage, refuse, wait, mark)
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
		j.pages = ""
	}
	if j.results == "" && !j.env.Smoke {
		j.results = stored
	}
	return nil
}

// named are the scenarios of a name, or of several with commas.
func named(list string) ([]scenario.Scenario, error) {
	switch list {
	case "all":
		return scenario.All(), nil
	case "performance":
		return scenario.Performance(), nil
	case "report", "draw":
		return nil, nil
	}
	var found []scenario.Scenario
	for name := range strings.SplitSeq(list, ",") {
		all := scenario.All()
		i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%w: no scenario is named %q; there are %s, performance, all, report and draw",
				errUsage, name, strings.Join(scenarioNames(), ", "))
		}
		found = append(found, all[i])
	}
	return found, nil
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenario.All() {
		names = append(names, s.Name)
	}
	return names
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

func (j *job) do(ctx context.Context) error {
	if j.results == "" {
		dir, err := os.MkdirTemp("", "shardlimit-smoke-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		j.results = dir
	}
	if j.draw {
		return j.drawStored(j.results, true)
	}
	if err := j.heed(ctx); err != nil {
		return err
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
	if len(j.scenarios) == 0 {
		failed = append(failed, j.drawStored(j.results, false))
	}
	if j.pages != "" {
		failed = append(failed, report.Pages(j.pages, j.results))
	}
	return errors.Join(failed...)
}

// drawStored draws the pictures of the stored results that documents show, or all, into a folder.
func (j *job) drawStored(dir string, all bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range scenarioNames() {
		r, err := report.Read(filepath.Join(stored, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		files, err := r.Draw(dir, all)
		if err != nil {
			return err
		}
		fmt.Fprintf(j.out, "%s: drew %d pictures\n", name, len(files))
	}
	return nil
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
	rest, begin := j.rest(ctx)
	failed := s.Run(ctx, env, result)
	noise := quiet.Between(rest, begin, quiet.Read(j.proc))
	result.Noise = &noise
	if why := result.Disturbed(); why != "" && !j.env.Smoke {
		env.Progress("BUSY, not to be quoted: %s", why)
	}
	if failed != nil {
		if len(result.Points) == 0 {
			return failed
		}
		result.Remark("Not everything could be measured: %s.", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	result.Took = time.Since(began).Round(time.Second).String()
	files, err := result.Write(j.results, j.results != stored)
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

// Command bench measures shardlimit and its rivals against real redis-servers
// and writes what it found as raw JSON, SVG pictures, and figures in README.md and docs.
//
//	go -C bench run . -h
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/quiet"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/scenario"
	"github.com/shardlimit/shardlimit/bench/internal/service"
)

// A scenario with several processes starts this program again; such a
// process must not get as far as reading flags.
func init() {
	fleet.ServeIfWorker()
	service.ServeIfService()
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	j, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = j.do(ctx)
	}
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

var errUsage = errors.New("usage")

// job is what the command line asks for.
type job struct {
	scenarios []scenario.Scenario // none: only bring pictures and pages up to date
	env       scenario.Env
	results   string // folder
	busy      string // what to do if others use the machine: refuse, wait or mark
	command   string
	machine   report.Machine // as the program found it
	out       io.Writer

	watch watch // how the machine is watched
}

func parse(args []string, out io.Writer) (*job, error) {
	j := &job{out: out, machine: report.ThisMachine(), watch: watch{quiet.Proc, report.LoadAverages, pause},
		command: strings.Join(append([]string{"go -C bench run ."}, args...), " ")}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { usage(flags) }
	flags.BoolVar(&j.env.Smoke, "smoke", false, "try everything once, quickly; the figures mean nothing; needs --out")
	flags.Float64Var(&j.env.Time, "time", 1, "factor on how long each point is measured")
	flags.StringVar(&j.env.Redis, "redis-server", "redis-server", "the program to start as servers")
	flags.StringVar(&j.results, "out", stored, "folder for JSON and SVG; pages show figures of the usual one")
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
	err := j.complete(name)
	if flags.NArg() > 0 {
		err = fmt.Errorf("%q is too much; flags follow the scenario", flags.Arg(0))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	return j, nil
}

// complete checks what the flags said, and finds the scenarios.
func (j *job) complete(name string) (err error) {
	switch {
	case !slices.Contains([]string{refuse, wait, mark}, j.busy):
		return fmt.Errorf("--busy must be %s, %s or %s", refuse, wait, mark)
	case !(j.env.Time > 0 && j.env.Time <= 100):
		return errors.New("--time must be above 0, and at most 100")
	case j.env.Smoke && j.results == stored:
		return errors.New("--smoke needs --out: its figures mean nothing")
	}
	j.env.Rivals = rival.All()
	j.scenarios, err = named(name)
	return err
}

// named are the scenarios of a name, or of several with commas.
func named(list string) (found []scenario.Scenario, err error) {
	all := scenario.All()
	switch list {
	case "all":
		return all, nil
	case "report":
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(s scenario.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario is named %q", name)
		}
		found = append(found, all[i])
	}
	return found, nil
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprint(out, "usage: go -C bench run . SCENARIO[,SCENARIO...] [flags]\n\nscenarios:\n")
	for _, s := range scenario.All() {
		fmt.Fprintf(out, "  %-11s %s\n", s.Name, s.Title)
	}
	fmt.Fprintf(out, "  %-11s %s\n  %-11s %s\n\nflags:\n", "all", "all of them, one after the other", "report",
		"draw the pictures and write the figures in README.md and docs from the stored results")
	flags.PrintDefaults()
}

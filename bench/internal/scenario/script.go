package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/replay"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/stat"
	"github.com/shardlimit/shardlimit/bench/internal/yardstick"
)

var scriptTime = Scenario{
	Name:  "script",
	Title: "time in the script against the fastest layout known",
	Takes: 25 * time.Second,
	Question: `What does the server spend on a take, by its own count (INFO commandstats)? ` + "`yardstick`" + ` is
the fastest way to keep a sliding log that we found, all of it in one string, cut down to what
a decision needs; ` + "`floor`" + ` is a script that only returns a number. Calls come in pipelines of
sixteen, each to another limit. "merge": the grant joins the open entry of the log, which is
what nearly all batches of a busy limit do. "open": it opens a new entry, and old ones are
trimmed. "denied": nothing is free. The scripts take turns many times a second, and each figure is a
median of such slices.`,
	Run: runScript,
}

const (
	scriptPermits  = 1_000_000
	scriptWindow   = 2 * time.Second
	scriptEntries  = 128 // takes a window that each open an entry
	scriptPipeline = 16  // limits
	scriptSlices   = 8   // of the time of each case
	scriptBurst    = 4   // merges and denials go on for such a part of a window
)

// scribe is a script under measurement: a command for each limit, built anew for
// each call.
type scribe struct {
	name string
	// take makes the command that takes n permits from limit i.
	take func(i int, n int64) rueidis.Completed
	// granted reads how many permits a reply grants.
	granted func(reply []int64) int64
}

// scriptRun is one run of the scenario.
type scriptRun struct {
	server *server.Server
	client rueidis.Client
	window time.Duration
	found  *findings
}

func runScript(ctx context.Context, env Env, result *report.Result) error {
	run := &scriptRun{window: env.span(100*time.Millisecond, scriptWindow), found: newFindings()}
	rounds := env.rounds(5)
	cases := []string{"merge", "open", "denied"}
	result.Views = []report.View{
		{Metric: "micros", Title: "Time in the script per call", Unit: "µs", X: "case", Plot: true, Nominal: true,
			Cases: cases},
		{Metric: "ratio", Title: "shardlimit over the yardstick", Unit: "times", X: "case", Nominal: true,
			Cases: cases},
	}
	setting(result, "Limit", "%d permits per %s, %d limits", scriptPermits, run.window, scriptPipeline)
	setting(result, "Rounds", "%d", rounds)
	var err error
	if run.server, err = env.start(ctx, result); err != nil {
		return err
	}
	defer run.server.Close()
	if run.client, err = rueidis.NewClient(server.Option(run.server.Addr())); err != nil {
		return err
	}
	defer run.client.Close()
	for round := range rounds {
		scribes, err := run.scribes(ctx, round)
		if err != nil {
			return err
		}
		if err := run.measure(ctx, scribes, cases); err != nil {
			return err
		}
		env.Progress("round %d of %d done", round+1, rounds)
	}
	run.found.addTo(result)
	return nil
}

// scribes are ours and the yardstick, with limits that nobody has used before.
func (run *scriptRun) scribes(ctx context.Context, round int) ([]scribe, error) {
	if err := yardstick.Load(ctx, run.client); err != nil {
		return nil, err
	}
	var ours []map[int64]replay.Command
	var logs []*yardstick.Log
	for i := range scriptPipeline {
		name := fmt.Sprintf("script-%d-%d", round, i)
		commands := make(map[int64]replay.Command)
		for n := int64(1); n <= scriptPermits; n *= 2 {
			_, command, err := replay.Capture(ctx, run.client, name, scriptPermits, run.window, n)
			if err != nil {
				return nil, err
			}
			commands[n] = command
		}
		ours = append(ours, commands)
		logs = append(logs, yardstick.New(name, scriptPermits, run.window))
	}
	// A script that does nothing, with as many arguments as a take of ours has.
	sha, err := run.client.Do(ctx, run.client.B().ScriptLoad().Script("return {1}").Build()).ToString()
	if err != nil {
		return nil, err
	}
	nothing := run.client.B().Evalsha().Sha1(sha).Numkeys(1).Key("floor").Arg("1", "2", "3", "4", "5", "6", "7", "8",
		"9").Build().Pin()
	return []scribe{
		{"shardlimit", func(i int, n int64) rueidis.Completed { return ours[i][n].Build(run.client) },
			func(r []int64) int64 { return r[3] }},
		{"yardstick", func(i int, n int64) rueidis.Completed { return logs[i].Take(run.client, n) },
			func(r []int64) int64 { return r[2] }},
		{"floor", func(int, int64) rueidis.Completed { return nothing }, func([]int64) int64 { return 0 }},
	}, nil
}

// measure notes the microseconds per call of each case.
func (run *scriptRun) measure(ctx context.Context, scribes []scribe, cases []string) error {
	every := run.window / scriptEntries
	for x, c := range []struct {
		span, every time.Duration
		before      func(ctx context.Context, s scribe) error
	}{
		{run.window / scriptBurst, 0, nil},
		{run.window, every, nil},
		{run.window / scriptBurst, 0, run.exhaust},
	} {
		if err := run.fill(ctx, scribes, every); err != nil {
			return err
		}
		if c.before != nil {
			for _, s := range scribes {
				if err := c.before(ctx, s); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
		micros, err := run.sliced(ctx, c.span, c.every, scribes)
		if err != nil {
			return fmt.Errorf("%s: %w", cases[x], err)
		}
		var ratios []float64
		for slice := range scriptSlices {
			ratios = append(ratios, micros[0][slice]/micros[1][slice])
		}
		for i, s := range scribes {
			run.found.add(s.name, float64(x), "micros", stat.Of(micros[i]...).Median)
		}
		run.found.add(scribes[0].name+" / "+scribes[1].name, float64(x), "ratio", stat.Of(ratios...).Median)
	}
	return nil
}

// fill takes from all limits for a window, evenly, after which their logs are full.
func (run *scriptRun) fill(ctx context.Context, scribes []scribe, every time.Duration) error {
	for end := time.Now().Add(run.window); time.Now().Before(end); {
		for _, s := range scribes {
			if _, err := run.pipeline(ctx, s, 1); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
		if err := load.Sleep(ctx, every); err != nil {
			return err
		}
	}
	return nil
}

// sliced takes permits again and again with pauses, and returns the server's
// microseconds per call by scribe and slice of the time. They take turns at every
// slice: the server counts the time in which it has lost its core, too, and so a
// bad moment is one of both.
func (run *scriptRun) sliced(ctx context.Context, span, every time.Duration, scribes []scribe) ([][]float64, error) {
	micros := make([][]float64, len(scribes))
	for slice := range scriptSlices {
		for _, i := range rotated(len(scribes), slice) {
			m, err := scriptMicros(ctx, run.server,
				func() error { return run.repeat(ctx, span/scriptSlices, every, scribes[i]) })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", scribes[i].name, err)
			}
			micros[i] = append(micros[i], m)
		}
	}
	return micros, nil
}

func (run *scriptRun) repeat(ctx context.Context, span, every time.Duration, s scribe) error {
	for end := time.Now().Add(span); time.Now().Before(end); {
		if _, err := run.pipeline(ctx, s, 1); err != nil {
			return err
		}
		if err := load.Sleep(ctx, every); err != nil {
			return err
		}
	}
	return nil
}

// exhaust takes what every limit has, in ever smaller portions.
func (run *scriptRun) exhaust(ctx context.Context, s scribe) error {
	portion := int64(1)
	for portion*2 <= scriptPermits {
		portion *= 2
	}
	for ; portion > 0; portion /= 2 {
		for range 2 { // less than two are left of the one before, and somewhat more leaves the logs meanwhile
			granted, err := run.pipeline(ctx, s, portion)
			if err != nil {
				return err
			}
			if granted == 0 {
				break
			}
		}
	}
	return nil
}

// pipeline takes n permits from every limit, in one pipeline, and returns how many
// were granted in all.
func (run *scriptRun) pipeline(ctx context.Context, s scribe, n int64) (granted int64, err error) {
	commands := make([]rueidis.Completed, scriptPipeline)
	for i := range commands {
		commands[i] = s.take(i, n)
	}
	for _, reply := range run.client.DoMulti(ctx, commands...) {
		ints, err := reply.AsIntSlice()
		if err != nil {
			return 0, err
		}
		granted += s.granted(ints)
	}
	return granted, nil
}

// scriptMicros returns a server's microseconds per script call while do runs.
func scriptMicros(ctx context.Context, s *server.Server, do func() error) (float64, error) {
	before, err := s.Usage(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	after, err := s.Usage(ctx)
	if err != nil {
		return 0, err
	}
	used := after.Since(before)
	if used.Scripts == 0 {
		return 0, errors.New("no script was called")
	}
	return float64(used.ScriptMicro) / float64(used.Scripts), nil
}

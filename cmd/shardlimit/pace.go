package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stdio"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"
)

// declareTimeout is how long a limit may take to be declared. After that, lines wait for Redis like
// for permits.
const declareTimeout = 2 * time.Second

const paceHelp = `Lines of standard input are written to standard output as fast as the limit
NAME allows, which all processes with this name share. One process goes at
most a quarter faster than the whole limit, so that lines come at a pace and
not in bursts. Input is read in pieces of up to 1 MiB, and no more of it
while lines wait for permits; a line that is larger ends pace. While Redis
does not answer, pace waits. Not on Windows.

Example, three of these share 500 lines a second over two servers:

  shardlimit pace --name mails --rate 500/s --redis 10.0.0.1:6379 <todo >sent

If the limit is stored already, it is used as it is; shardlimit set changes
it.

An interrupt (Ctrl-C, SIGTERM, SIGHUP) or a failure loses no line. Lines that
were read but not released go to the rest file: released lines, rest file and
what has not been read are the input, in this order. If the reader of the
output is stuck, interrupt twice. If writing fails in the middle of a line,
that line is repeated in the rest file.`

func paceCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "pace",
		Usage:       "release lines of standard input at a rate shared by many processes",
		UsageText:   "shardlimit pace --name NAME --rate RATE --redis URL,URL... [options] < lines > lines",
		Description: paceHelp,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the limit"},
			&cli.StringFlag{Name: "rate", Usage: rateHelp},
			&cli.IntFlag{Name: "shards",
				Usage: "`NUMBER` of shards of a new limit; 0: chosen from the nodes and the rate"},
			&cli.StringFlag{Name: "rest",
				Usage: "`FILE` for lines that were read but not released (default: shardlimit-pace-NAME-PID.rest)"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress on standard error"},
		}, processFlags()...),
		Action: action(readPaceJob, con),
	}
}

// paceJob is a command line of pace.
type paceJob struct {
	name    string
	limit   shardlimit.Limit
	process process
	rest    string
	quiet   bool
}

func readPaceJob(cmd *cli.Command) (*paceJob, error) {
	j := &paceJob{name: cmd.String("name"), rest: cmd.String("rest"), quiet: cmd.Bool("quiet")}
	if j.name == "" {
		return nil, usagef("give the limit a name: --name mails")
	}
	if !cmd.IsSet("rate") {
		return nil, usagef("give a rate: --rate 500/s")
	}
	r, err := spelling.ParseRate(cmd.String("rate"))
	if err != nil {
		return nil, usagef("--rate: %w", err)
	}
	j.limit = shardlimit.Limit{Permits: r.Permits, Per: r.Per, Shards: cmd.Int("shards")}
	if j.process, err = readProcess(cmd); err != nil {
		return nil, err
	}
	if !cmd.IsSet("rest") {
		j.rest = fmt.Sprintf("shardlimit-pace-%.64s-%d.rest", url.QueryEscape(j.name), os.Getpid())
	} else if err := checkRest(j.rest); err != nil {
		return nil, usagef("--rest: %w", err)
	}
	return j, nil
}

// run connects, releases lines until the end or an interrupt, and settles.
func (j *paceJob) run(ctx context.Context, con console) error {
	if runtime.GOOS == "windows" {
		return errors.New("this system has no way to end without losing lines")
	}
	j.process.config.OnOutage = shardlimit.WaitOut
	j.process.config.Logger = slog.New(slog.NewTextHandler(con.err, nil))
	client, closeAll, err := j.process.start()
	if err != nil {
		return err
	}
	defer closeAll()
	interrupts := listen(ctx)
	defer interrupts.close()
	limiter, err := j.open(interrupts.first, client, con)
	if err != nil {
		return err
	}
	origin, began := startOf(con.in), time.Now()
	engine := pace.New(pace.Options{Limiter: limiter, In: stdio.Input(interrupts.first, con.in),
		Out: stdio.Output(interrupts.second, con.out)})
	reporting, stop := context.WithCancel(interrupts.second)
	defer stop()
	var reports sync.WaitGroup
	if !j.quiet {
		reports.Go(func() { report(reporting, con, limiter, engine) })
	}
	outcome := engine.Run(interrupts.first)
	stop()
	reports.Wait()
	return j.settle(con.err, outcome, origin, time.Since(began))
}

// open declares or joins the limit, and says so if it is not the one asked for.
func (j *paceJob) open(ctx context.Context, client *shardlimit.Client, con console) (*shardlimit.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	limiter, err := client.Limiter(ctx, j.name, j.limit)
	if err != nil {
		return nil, explain(err, j.name)
	}
	for _, n := range client.Ping(ctx) {
		if n.Err != nil { // the log tells of those that go away later
			_, _ = fmt.Fprintf(con.err, "shardlimit: %s\n", oneLine(n.Err))
		}
	}
	got, want := limiter.Limit(), j.limit
	if got.Permits != want.Permits || got.Per != want.Per || want.Shards > 0 && got.Shards != want.Shards {
		_, _ = fmt.Fprintf(con.err, "shardlimit: %s is stored with %s, which holds; shardlimit set changes it\n",
			draw.Name(j.name), describe(got))
	}
	return limiter, nil
}

// report tells once a second on standard error how far a pace has come, until ctx is done. On a
// terminal it is one line that is written over and over, unless the released lines go to a terminal
// too and would mix with it.
func report(ctx context.Context, con console, limiter *shardlimit.Limiter, e *pace.Engine) {
	begin, end := "", "\n"
	if term.IsTerminal(int(con.err.Fd())) && !term.IsTerminal(int(con.out.Fd())) {
		begin, end = "\r\x1b[K", ""
	}
	defer func() { _, _ = fmt.Fprint(con.err, begin) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before, at := e.Lines.Load(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			lines := e.Lines.Load()
			perSecond := float64(lines-before) / now.Sub(at).Seconds()
			line := progressLine(limiter, perSecond, lines, e.Waiting.Load())
			_, _ = fmt.Fprint(con.err, begin, line, end)
			before, at = lines, now
		}
	}
}

func progressLine(limiter *shardlimit.Limiter, perSecond float64, lines, waiting int64) string {
	line := fmt.Sprintf("%s: %s/s of %s, released %s, waiting %s", draw.Name(limiter.Name()),
		draw.Count(int64(perSecond+0.5)), rateOf(limiter.Limit()), draw.Count(lines), draw.Count(waiting))
	if waiting == 0 {
		line += ", waiting for input"
	}
	return line
}

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/pace"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/stdio"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/urfave/cli/v3"
)

// declareTimeout is how long a limit may take to be declared. After that, lines wait for Redis like
// for permits.
const declareTimeout = 2 * time.Second

const paceHelp = `Lines of standard input are written to standard output as fast as the limit
NAME allows, which all processes with this name share. A line is written as
soon as its permit was granted. One process goes at most a quarter faster
than the whole limit, so that lines come at a pace and not in bursts. Lines
of up to 1 MiB are read ahead; a larger one is streamed, for one permit.
While Redis does not answer, pace waits.

Example, three of these share 500 lines a second over two servers:

  shardlimit pace --name mails --rate 500/s --redis 10.0.0.1:6379 <todo >sent

If the limit is stored already, it is used as it is; shardlimit set changes
it.

An interrupt (Ctrl-C, SIGTERM, SIGHUP) or a failure loses no line. Lines that
have their permits are written, and what was read but not released goes to
the rest file: released lines, rest file and what has not been read are the
input, in this order. If the reader of the output is stuck, interrupt twice.
If writing fails in the middle of a line, that line is repeated in the rest
file.

Exit codes: 0 everything was released, 1 interrupted or failed, 2 wrong
usage.`

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
			&cli.StringFlag{Name: "audit",
				Usage: "append 'start end lines' of every batch to `FILE`, in nanoseconds of the machine's monotonic " +
					"clock"},
			&cli.BoolFlag{Name: "quiet", Usage: "no progress on standard error"},
			&cli.BoolFlag{Name: "json",
				Usage: "progress and outcome as JSON, one object a line; times are in microseconds"},
		}, processFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			job, err := readPaceJob(cmd)
			if err != nil {
				return err
			}
			return job.run(ctx, con)
		},
	}
}

// paceJob is a command line of pace.
type paceJob struct {
	name        string
	limit       shardlimit.Limit
	process     process
	rest, audit string
	quiet, json bool
}

func readPaceJob(cmd *cli.Command) (*paceJob, error) {
	j := &paceJob{name: cmd.String("name"), rest: cmd.String("rest"), audit: cmd.String("audit"),
		quiet: cmd.Bool("quiet"), json: cmd.Bool("json")}
	if j.name == "" {
		return nil, usagef("give the limit a name: --name mails")
	}
	if !cmd.IsSet("rate") {
		return nil, usagef("give a rate: --rate 500/s")
	}
	r, err := rate.Parse(cmd.String("rate"))
	if err != nil {
		return nil, usagef("--rate: %w", err)
	}
	j.limit = shardlimit.Limit{Permits: r.Permits, Per: r.Per, Shards: cmd.Int("shards")}
	if j.process, err = readProcess(cmd); err != nil {
		return nil, err
	}
	if !cmd.IsSet("rest") {
		j.rest = restName(j.name, os.Getpid())
	} else if err := checkRest(j.rest); err != nil {
		return nil, usagef("--rest: %w", err)
	}
	return j, nil
}

// run connects, releases lines until the end or an interrupt, and settles.
func (j *paceJob) run(ctx context.Context, con console) error {
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
	return j.release(interrupts, limiter, con)
}

// open declares or joins the limit, and says so if it is not the one asked for.
func (j *paceJob) open(ctx context.Context, client *shardlimit.Client, con console) (*shardlimit.Limiter, error) {
	ctx, cancel := context.WithTimeout(ctx, declareTimeout)
	defer cancel()
	if err := ownKind(ctx, client, j.name, "give the limit another name"); err != nil {
		return nil, err
	}
	limiter, err := client.Limiter(ctx, j.name, j.limit)
	if err != nil {
		return nil, explain(err, j.name)
	}
	got := limiter.Limit()
	if got.Permits != j.limit.Permits || got.Per != j.limit.Per {
		_, _ = fmt.Fprintf(con.err,
			"shardlimit: %s is stored with %s, which holds instead of %s; shardlimit set changes it\n",
			draw.Name(j.name), rateOf(got), rateOf(j.limit))
	}
	if j.limit.Shards > 0 && got.Shards != j.limit.Shards {
		_, _ = fmt.Fprintf(con.err, "shardlimit: %s has %s, and not %d; shardlimit set changes it\n",
			draw.Name(j.name), draw.Plural(int64(got.Shards), "shard"), j.limit.Shards)
	}
	return limiter, nil
}

// release runs the engine between standard input and standard output.
func (j *paceJob) release(interrupts *interrupts, limiter *shardlimit.Limiter, con console) error {
	in, err := stdio.Input(interrupts.first, con.in)
	if err != nil {
		return err
	}
	out, err := stdio.NewOutput(interrupts.second, interrupts.first, con.out)
	if err != nil {
		return err
	}
	options := pace.Options{Gate: gate{limiter}, In: in, Out: out, Permits: j.limit.Permits, Per: j.limit.Per,
		Now: history.Now}
	if j.audit != "" {
		log, err := openAudit(j.audit)
		if err != nil {
			return err
		}
		defer func() { _ = log.file.Close() }() // every line is written by its own system call
		options.Audit = log.released
	}
	origin := startOf(con.in)
	engine := pace.New(options)
	stopProgress := func() {}
	if !j.quiet {
		p := newProgress(j, con, engine.Status, func() rate.Rate { return rateOf(limiter.Limit()) })
		stopProgress = goUntilStopped(interrupts.second, p.run)
	}
	began := time.Now()
	outcome := engine.Run(interrupts.first)
	stopProgress()
	return j.settle(con.err, outcome, origin, time.Since(began))
}

// goUntilStopped runs f in a goroutine; the returned function ends its context
// and waits for it.
func goUntilStopped(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/demo"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/urfave/cli/v3"
)

const demoHelp = `Starts Redis nodes inside this process, and a fleet of unequal workers that
want more than one limit allows: every other one waits for batches, the
others poll. On the way the limit is lowered and raised again, and a node
goes away and comes back. At the end the recorded history is checked: what
each worker got of what it was entitled to, by max-min fairness, and the most
permits admitted in any window, against the limit that held in it. Exit code
1 says that it was exceeded.

Example:

  shardlimit demo --for 40s --rate 1000/s --nodes 3

The embedded nodes say nothing about the speed of real servers. Parts are
less even while the processors are busy.`

func demoCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "demo",
		Usage:       "see a limit at work; needs no Redis",
		Description: demoHelp,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Value: 20 * time.Second, Validator: atLeast(time.Second),
				Usage: "how long it runs, `TIME`"},
			&cli.StringFlag{Name: "rate", Value: "2000/s", Usage: rateHelp},
			&cli.IntFlag{Name: "shards", Usage: "`NUMBER` of shards; 0: chosen"},
			&cli.IntFlag{Name: "nodes", Value: 4, Usage: "`NUMBER` of embedded nodes"},
			&cli.IntFlag{Name: "workers", Value: 8, Usage: "`NUMBER` of workers, each with a client of its own"},
		},
		Action: action(readDemo, con),
	}
}

type demoJob demo.Config

func readDemo(cmd *cli.Command) (c demoJob, err error) {
	c = demoJob{For: cmd.Duration("for"), Shards: cmd.Int("shards"), Nodes: cmd.Int("nodes"),
		Workers: cmd.Int("workers")}
	if c.Rate, err = spelling.ParseRate(cmd.String("rate")); err != nil {
		return c, usagef("--rate: %w", err)
	}
	switch {
	case c.Rate.Per < demo.ShortestWindow:
		return c, usagef("--rate has a window of %s; it must be at least %s", c.Rate.Per, demo.ShortestWindow)
	case c.Nodes < 1 || c.Nodes > embedded.MaxNodes:
		return c, usagef("--nodes is %d; it must be 1 to %d", c.Nodes, embedded.MaxNodes)
	case c.Workers < 1 || c.Workers > demo.MaxWorkers:
		return c, usagef("--workers is %d; it must be 1 to %d", c.Workers, demo.MaxWorkers)
	}
	return c, nil
}

func (c demoJob) run(ctx context.Context, con console) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	page := draw.NewPage(con.out)
	verdict, err := demo.Run(ctx, demo.Config(c), demo.On(page))
	page.Close()
	if err != nil {
		return explain(err, "demo")
	}
	if _, err := fmt.Fprintf(con.out, "\n%s", verdict); err != nil {
		return err
	}
	if !verdict.OK() {
		return fmt.Errorf("the limit was exceeded")
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/urfave/cli/v3"
)

const rateHelp = "`RATE` as NUMBER/TIME: 500/s, 30/m, 100/10s, 20/100ms"

func setCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "set",
		Usage:     "change a limit while it is in use, or create it",
		ArgsUsage: "NAME",
		Description: "Every process that uses the limit follows within its next call, and what was used stays " +
			"counted.\n" +
			"Every window that begins after the command has ended obeys the new rate.\n\nExample:\n\n" +
			"  shardlimit set mails --rate 1200/s --redis 10.0.0.1:6379,10.0.0.2:6379\n" +
			"  shardlimit set users --key ann --rate 600/m --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags: append([]cli.Flag{
			familyFlag(), keyFlag(),
			&cli.BoolFlag{Name: "unset", Usage: "with --key: the key has its family's limit again"},
			&cli.StringFlag{Name: "rate", Usage: rateHelp + "; left out: as it is"},
			&cli.IntFlag{Name: "shards", Usage: "`NUMBER` of shards, 0 to have it chosen; left out: as it is"},
			&cli.BoolFlag{Name: "failover", Usage: "what a lost node has is taken over by the others, of three or " +
				"more; =false: not; left out: as it is"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return set(ctx, cmd, con) },
	}
}

func set(ctx context.Context, cmd *cli.Command, con console) error {
	ofFamily := cmd.Bool("family") || cmd.IsSet("key")
	switch {
	case cmd.Bool("unset") && (!cmd.IsSet("key") || cmd.IsSet("rate")):
		return usagef("--unset goes with --key, and not with --rate")
	case ofFamily && cmd.IsSet("shards"):
		return usagef("how many shards the keys of a family have cannot be changed")
	case cmd.IsSet("key") && cmd.IsSet("failover"):
		return usagef("--failover goes with a limit or a whole family, not with --key")
	case !cmd.IsSet("rate") && !cmd.IsSet("shards") && !cmd.IsSet("failover") && !cmd.Bool("unset"):
		return usagef("nothing to set; give --rate 500/s, --shards 8 or --failover")
	}
	change, err := readChange(cmd)
	if err != nil {
		return err
	}
	return withClient(ctx, cmd, func(ctx context.Context, client *shardlimit.Client, name string) error {
		if ofFamily {
			return setFamily(ctx, cmd, con, client, name, change)
		}
		limiter, err := client.Open(ctx, name)
		if err := notFamily(ctx, client, name, err); errors.As(err, &usageError{}) {
			return err
		}
		if errors.Is(err, shardlimit.ErrNotFound) && cmd.IsSet("rate") {
			return declare(ctx, client, con, name, change(shardlimit.Limit{}))
		}
		if err != nil {
			return explain(err, name)
		}
		before := limiter.Limit()
		if err := limiter.SetLimit(ctx, change(before)); err != nil {
			return explain(err, name)
		}
		_, err = fmt.Fprintf(con.out, "%s: %s (before: %s)\n", name, limiter.Limit(), before)
		return err
	})
}

// readChange returns what the flags do to a limit.
func readChange(cmd *cli.Command) (func(shardlimit.Limit) shardlimit.Limit, error) {
	var r rate.Rate
	if cmd.IsSet("rate") {
		var err error
		if r, err = rate.Parse(cmd.String("rate")); err != nil {
			return nil, usagef("--rate: %w", err)
		}
	}
	return func(l shardlimit.Limit) shardlimit.Limit {
		if cmd.IsSet("rate") {
			l.Permits, l.Per = r.Permits, r.Per
		}
		if cmd.IsSet("shards") {
			l.Shards = cmd.Int("shards")
		}
		if cmd.IsSet("failover") {
			l.Failover = cmd.Bool("failover")
		}
		return l
	}, nil
}

func declare(ctx context.Context, client *shardlimit.Client, con console, name string, limit shardlimit.Limit) error {
	limiter, err := client.Limiter(ctx, name, limit)
	if err != nil {
		return explain(err, name)
	}
	// Limiter returns without an error while Redis is away.
	if _, err := client.Open(ctx, name); err != nil {
		return explain(err, name)
	}
	_, err = fmt.Fprintf(con.out, "%s: %s (new)\n", name, limiter.Limit())
	return err
}

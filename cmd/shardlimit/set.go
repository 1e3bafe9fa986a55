package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/rate"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/urfave/cli/v3"
)

const rateHelp = "`RATE` as NUMBER/TIME: 500/s, 30/m, 100/10s, 20/100ms"

const setHelp = `Every process that uses the limit follows within its next call, a change of
--mode within 15 seconds of use. What was used stays counted. Every window
that begins after the command has ended obeys the new limit. The limit keeps
what no flag names.

A family is changed, not created. Its processes follow within 2 seconds of
use. A key whose calls bring a limit of their own keeps that.

Examples:

  shardlimit set mails --rate 1200/s --redis 10.0.0.1:6379,10.0.0.2:6379
  shardlimit set jobs --rate 10/s --algorithm token-bucket --burst 50 \
    --redis 10.0.0.1:6379
  shardlimit set users --family --rate 600/m \
    --redis 10.0.0.1:6379,10.0.0.2:6379`

func setCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "set",
		Usage:       "change a limit while it is in use, or create it; change a family",
		ArgsUsage:   "NAME",
		Description: setHelp,
		Flags: append([]cli.Flag{
			familyFlag(),
			&cli.StringFlag{Name: "rate", Usage: rateHelp},
			&cli.StringFlag{Name: "algorithm", Usage: "`HOW` to count: " + spelling.List(spelling.Algorithms())},
			&cli.StringFlag{Name: "mode", Usage: "`WHAT` becomes of calls: " + spelling.List(spelling.Modes())},
			&cli.Int64Flag{Name: "burst", HideDefault: true,
				Usage: "what a bucket holds, a `NUMBER` of permits; 0: those of the rate"},
			&cli.DurationFlag{Name: "lease", HideDefault: true,
				Usage: "how long processes may hold permits, `TIME`; 0: never"},
			&cli.IntFlag{Name: "shards", HideDefault: true, Usage: "`NUMBER` of shards, 0 to have it chosen"},
			&cli.Int64Flag{Name: "revision", HideDefault: true,
				Usage: "`NUMBER` above which a declaration in code replaces the limit; it never falls"},
			nodeTimeoutFlag(),
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return set(ctx, cmd, con) },
	}
}

// ofLimit are the flags that change something about a limit.
var ofLimit = []string{"rate", "algorithm", "mode", "burst", "lease", "shards", "revision"}

func set(ctx context.Context, cmd *cli.Command, con console) error {
	if err := checkSet(cmd); err != nil {
		return err
	}
	change, err := readChange(cmd)
	if err != nil {
		return err
	}
	return withClient(ctx, cmd, func(ctx context.Context, client *shardlimit.Client, name string) error {
		if cmd.Bool("family") {
			family, err := openFamily(ctx, client, name)
			if err != nil {
				return err
			}
			before := family.Limit()
			if err := family.SetLimit(ctx, change(before)); err != nil {
				return notSet(err, name, " --family")
			}
			return tellChange(con, name, before, family.Limit())
		}
		limiter, err := open(ctx, cmd, client, name)
		if errors.Is(err, shardlimit.ErrNotFound) && cmd.IsSet("rate") {
			return declare(ctx, cmd, client, con, name, change(shardlimit.Limit{}))
		}
		if err != nil {
			return err
		}
		if cmd.IsSet("node-timeout") {
			return usagef("%s is there already; --node-timeout is for a limit that is created", draw.Name(name))
		}
		before := limiter.Limit()
		if err := limiter.SetLimit(ctx, change(before)); err != nil {
			return notSet(err, name, "")
		}
		return tellChange(con, name, before, limiter.Limit())
	})
}

// notSet says of a change that failed whether it is stored.
func notSet(err error, name, flag string) error {
	switch {
	case errors.As(err, new(*shardlimit.ShardError)):
		return fmt.Errorf("%[1]s: stored, but not every shard has adopted it: %[2]s; shardlimit rebalance %[1]s%[3]s "+
			"finishes the change when all answer", draw.Name(name), oneLine(err), flag)
	case errors.Is(err, shardlimit.ErrUnavailable):
		return fmt.Errorf("the record did not answer, so look whether anything changed with shardlimit show: %s",
			oneLine(err))
	}
	return err
}

// tellChange says what holds now.
func tellChange(con console, name string, before, now shardlimit.Limit) error {
	_, err := fmt.Fprintf(con.out, "%s: %s (before: %s)\n", draw.Name(name), describe(now), describe(before))
	return err
}

// checkSet refuses flags that do not go together.
func checkSet(cmd *cli.Command) error {
	given := slices.DeleteFunc(slices.Clone(ofLimit), func(name string) bool { return !cmd.IsSet(name) })
	switch {
	case len(given) == 0:
		return usagef("nothing to set; give one or more of --%s", strings.Join(ofLimit, ", --"))
	case cmd.Bool("family") && cmd.IsSet("shards"):
		return usagef("how many shards the keys of a family have cannot be changed")
	case cmd.Bool("family") && cmd.IsSet("node-timeout"):
		return usagef("--node-timeout goes with a limit that is created, not with a family")
	}
	return nil
}

// readChange returns what the flags do to a limit.
func readChange(cmd *cli.Command) (func(shardlimit.Limit) shardlimit.Limit, error) {
	var r rate.Rate
	var err error
	if cmd.IsSet("rate") {
		if r, err = rate.Parse(cmd.String("rate")); err != nil {
			return nil, usagef("--rate: %w", err)
		}
	}
	algorithm, err := chosen(cmd, "algorithm", spelling.Algorithms())
	if err != nil {
		return nil, err
	}
	mode, err := chosen(cmd, "mode", spelling.Modes())
	if err != nil {
		return nil, err
	}
	return func(l shardlimit.Limit) shardlimit.Limit {
		if cmd.IsSet("rate") {
			l.Permits, l.Per = r.Permits, r.Per
		}
		if cmd.IsSet("algorithm") && algorithm != l.Algorithm {
			l.Algorithm, l.Burst, l.Lease = algorithm, 0, 0 // those of the other one mean nothing to it
		}
		if cmd.IsSet("mode") {
			l.Mode = mode
		}
		if cmd.IsSet("burst") {
			l.Burst = cmd.Int64("burst")
		}
		if cmd.IsSet("lease") {
			l.Lease = cmd.Duration("lease")
		}
		if cmd.IsSet("shards") {
			l.Shards = cmd.Int("shards")
		}
		if cmd.IsSet("revision") {
			l.Revision = cmd.Int64("revision")
		}
		return l
	}, nil
}

// chosen reads a flag that names one of several things, with dashes or underscores.
func chosen[T any](cmd *cli.Command, flag string, all map[string]T) (v T, err error) {
	v, known := spelling.Find(all, cmd.String(flag))
	if cmd.IsSet(flag) && !known {
		return v, usagef("--%s is %q; it must be one of %s", flag, cmd.String(flag), spelling.List(all))
	}
	return v, nil
}

func declare(ctx context.Context, cmd *cli.Command, client *shardlimit.Client, con console, name string,
	limit shardlimit.Limit) error {
	limiter, err := client.Limiter(ctx, name, limit)
	if err != nil {
		return err
	}
	// Limiter returns without an error while Redis is away.
	if _, err := client.Open(ctx, name); err != nil {
		return err
	}
	if state, err := limiter.Peek(ctx); err == nil && cmd.IsSet("node-timeout") && !state.Takeover {
		_, _ = fmt.Fprintln(con.err, "shardlimit: a takeover needs three nodes or more, so --node-timeout does nothing")
	}
	_, err = fmt.Fprintf(con.out, "%s: %s (new)\n", draw.Name(name), describe(limiter.Limit()))
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/spelling"
	"github.com/urfave/cli/v3"
)

const rateHelp = "`RATE` as NUMBER/TIME: 500/s, 30/m, 100/10s, 20/100ms"

const setHelp = `Every process that uses the limit follows within its next call, a change of
--mode within 15 seconds of use. Usage stays counted. The limit keeps
what no flag names. A family is changed, not created; its processes follow
within 2 seconds of use.

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
			&cli.BoolFlag{Name: "family", Usage: "NAME is a family: what holds for each of its keys"},
			&cli.StringFlag{Name: "rate", Usage: rateHelp},
			&cli.StringFlag{Name: "algorithm", Usage: "`HOW` to count: " + spelling.List(spelling.Algorithms())},
			&cli.StringFlag{Name: "mode", Usage: "`WHAT` becomes of calls: " + spelling.List(spelling.Modes())},
			&cli.StringFlag{Name: "burst",
				Usage: "what a bucket holds, a `NUMBER` of permits; 0: those of the rate"},
			&cli.StringFlag{Name: "lease",
				Usage: "how long processes may hold permits, `TIME`; 0: never"},
			&cli.StringFlag{Name: "shards", Usage: "`NUMBER` of shards, 0 to have it chosen"},
			&cli.StringFlag{Name: "revision",
				Usage: "`NUMBER` above which a declaration in code replaces the limit; it never falls"},
			nodeTimeoutFlag(),
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return set(ctx, cmd, con) },
	}
}

func set(ctx context.Context, cmd *cli.Command, con console) error {
	if err := checkSet(cmd); err != nil {
		return err
	}
	return withClient(ctx, cmd, adminTimeout, nil, func(ctx context.Context, client *shardlimit.Client,
		name string) error {
		s := stored{name: name, kind: kindLimit}
		if cmd.Bool("family") {
			s.kind = kindFamily
		}
		s.open(ctx, client)
		if errors.Is(s.err, shardlimit.ErrNotFound) && s.kind == kindLimit && cmd.IsSet("rate") {
			var limit shardlimit.Limit
			if err := change(cmd, &limit); err != nil {
				return err
			}
			return declare(ctx, cmd, client, con, name, limit)
		}
		if s.err != nil {
			return s.err
		}
		if cmd.IsSet("node-timeout") {
			return usagef("%s is there already; --node-timeout is for a limit that is created", draw.Name(name))
		}
		before := s.handle.Limit()
		now := before
		if err := change(cmd, &now); err != nil {
			return err
		}
		if err := s.handle.SetLimit(ctx, now); err != nil {
			return notSet(err, s)
		}
		_, err := fmt.Fprintf(con.out, "%s: %s (before: %s)\n", draw.Name(name), describe(s.handle.Limit()),
			describe(before))
		return err
	})
}

// change does to a limit what the flags say.
func change(cmd *cli.Command, l *shardlimit.Limit) error {
	for _, field := range spelling.Fields {
		if !cmd.IsSet(field) {
			continue
		}
		if err := spelling.Set(l, field, cmd.String(field)); err != nil {
			return usagef("--%w", err)
		}
	}
	return nil
}

// notSet says of a change that failed whether it is stored.
func notSet(err error, s stored) error {
	if errors.As(err, new(*shardlimit.ShardError)) {
		return fmt.Errorf("%s: stored, but not every shard has adopted it: %s; shardlimit rebalance finishes the "+
			"change when all answer", draw.Name(s.name), oneLine(err))
	}
	if errors.Is(err, shardlimit.ErrUnavailable) {
		return fmt.Errorf("the record did not answer, so look whether anything changed with shardlimit show: %s",
			oneLine(err))
	}
	return err
}

// checkSet refuses flags that do not go together.
func checkSet(cmd *cli.Command) error {
	switch {
	case !slices.ContainsFunc(spelling.Fields, cmd.IsSet):
		return usagef("nothing to set; give one or more of --%s", strings.Join(spelling.Fields, ", --"))
	case cmd.Bool("family") && cmd.IsSet("shards"):
		return usagef("how many shards the keys of a family have cannot be changed")
	}
	return change(cmd, &shardlimit.Limit{})
}

// chosen reads a flag that names one of several things, with dashes or underscores.
func chosen[T any](cmd *cli.Command, flag string, all map[string]T) (v T, err error) {
	if v, err = spelling.Find(all, cmd.String(flag)); err != nil {
		err = usagef("--%s: %w", flag, err)
	}
	return v, err
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

func resetCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "reset",
		Usage:     "forget what was used of a limit",
		ArgsUsage: "NAME",
		Description: "The whole limit is free at once, or within 5 s after a node lost its memory.\n\nExample:\n\n" +
			"  shardlimit reset mails --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags:  append([]cli.Flag{keyFlag()}, targetFlags()...),
		Action: doing(con, (*shardlimit.Limiter).Reset, "usage forgotten"),
	}
}

func deleteCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "remove a limit that nothing uses any more",
		ArgsUsage: "NAME",
		Description: "A process that still uses the limit goes on with it, as after a loss of memory.\n\nExample:\n\n" +
			"  shardlimit delete mails --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags:  targetFlags(),
		Action: doing(con, (*shardlimit.Limiter).Delete, "deleted"),
	}
}

// doing is a command that does one thing to a limit, and says so.
func doing(con console, do func(*shardlimit.Limiter, context.Context) error, done string) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		return withLimit(ctx, cmd, adminTimeout, nil, func(ctx context.Context, l *shardlimit.Limiter) error {
			err := do(l, ctx)
			if err == nil {
				_, err = fmt.Fprintf(con.out, "%s: %s\n", draw.Name(l.Name()), done)
			}
			return err
		})
	}
}

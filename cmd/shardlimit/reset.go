package main

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

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
		return withLimit(ctx, cmd, func(ctx context.Context, l *shardlimit.Limiter) error {
			err := do(l, ctx)
			if err == nil {
				_, err = fmt.Fprintf(con.out, "%s: %s\n", draw.Name(l.Name()), done)
			}
			return err
		})
	}
}

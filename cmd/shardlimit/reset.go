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
		Flags: append([]cli.Flag{keyFlag()}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return withLimit(ctx, cmd, func(ctx context.Context, l *shardlimit.Limiter) error {
				if state, err := l.Peek(ctx); err == nil {
					if err := untouched(cmd, state); err != nil {
						return err
					}
				}
				if err := l.Reset(ctx); err != nil {
					return err
				}
				_, err := fmt.Fprintf(con.out, "%s: usage forgotten\n", draw.Name(l.Name()))
				return err
			})
		},
	}
}

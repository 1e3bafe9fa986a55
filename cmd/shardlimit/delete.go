package main

import (
	"context"
	"fmt"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

func deleteCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "delete",
		Usage:     "remove a limit that nothing uses any more",
		ArgsUsage: "NAME",
		Description: "A process that still uses the limit goes on with it, as after a loss of memory.\n\nExample:\n\n" +
			"  shardlimit delete mails --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags: targetFlags(),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return withLimit(ctx, cmd, func(ctx context.Context, l *shardlimit.Limiter) error {
				if err := l.Delete(ctx); err != nil {
					return err
				}
				_, err := fmt.Fprintf(con.out, "%s: deleted\n", draw.Name(l.Name()))
				return err
			})
		},
	}
}

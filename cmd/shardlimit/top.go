package main

import (
	"context"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

func topCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "watch a limit live",
		ArgsUsage: "NAME",
		Description: "What show prints, again and again, until interrupted. Nothing is consumed and nothing is " +
			"written.\n\nExample:\n\n  shardlimit top mails --redis 10.0.0.1:6379,10.0.0.2:6379",
		Flags: append([]cli.Flag{
			keyFlag(), participantFlag(),
			&cli.DurationFlag{Name: "every", Value: time.Second, Validator: atLeast(10 * time.Millisecond),
				Usage: "how often it looks, `TIME`"},
			&cli.UintFlag{Name: "count", Usage: "end after so many looks, `NUMBER`; 0: never"},
		}, targetFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return top(ctx, cmd, con) },
	}
}

func top(ctx context.Context, cmd *cli.Command, con console) error {
	return withLimit(ctx, cmd, forLong, func(ctx context.Context, limiter *shardlimit.Limiter) error {
		page := draw.NewPage(con.out)
		defer page.Close()
		tick := time.NewTicker(cmd.Duration("every"))
		defer tick.Stop()
		for looks := uint(1); ; looks++ {
			saw := lookAt(ctx, limiter, cmd.StringSlice("participant"))
			if ctx.Err() != nil { // it was cut short, and says nothing
				return nil
			}
			if err := page.Show(saw.rows(page)); err != nil || looks == cmd.Uint("count") {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// rows are the text, as a page has room for it.
func (k *look) rows(page *draw.Page) []string {
	width, _ := page.Size()
	rows := strings.Split(strings.TrimSuffix(k.text(), "\n"), "\n")
	if page.Terminal {
		for i, row := range rows {
			rows[i] = draw.Clip(row, width)
		}
	}
	return rows
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
	"github.com/urfave/cli/v3"
)

func allowCommand(con console) *cli.Command {
	return &cli.Command{
		Name:      "allow",
		Usage:     "ask once for permits of a limit",
		ArgsUsage: "NAME [N]",
		Description: "Takes N permits (default 1) if there are so many, else none, and tells by its exit code: 0 " +
			"allowed, 1 denied or failed, 2 the command line is wrong.\n\nExample:\n\n" +
			"  shardlimit allow mails --redis 10.0.0.1:6379 --quiet && send-mail",
		Flags: append([]cli.Flag{
			keyFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print the decision as one JSON object; times are in microseconds"},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing"},
		}, askerFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return allow(ctx, cmd, con) },
	}
}

func allow(ctx context.Context, cmd *cli.Command, con console) error {
	n := int64(1)
	if text := cmd.Args().Get(1); text != "" {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return usagef("N is %q; it must be a whole number of permits", text)
		}
	}
	return withLimit(ctx, cmd, forLong, nil, func(ctx context.Context, limiter *shardlimit.Limiter) error {
		d, err := limiter.AllowN(ctx, n)
		if err != nil {
			return err
		}
		switch {
		case cmd.Bool("quiet"):
		case cmd.Bool("json"):
			err = json.NewEncoder(con.out).Encode(decisionJSON{limiter.Name(), serve.AnswerOf(d)})
		default:
			_, err = fmt.Fprintln(con.out, decisionText(limiter.Name(), n, d))
		}
		if err == nil && !d.Allowed {
			return errTold
		}
		return err
	})
}

// decisionJSON is what allow --json prints.
type decisionJSON struct {
	Name string `json:"name"`
	serve.Answer
}

func decisionText(name string, n int64, d shardlimit.Decision) string {
	name, permits := draw.Name(name), draw.Plural(n, "permit")
	left := fmt.Sprintf("%s of %s left", draw.Count(d.Remaining), draw.Count(d.Limit))
	switch {
	case !d.Allowed:
		return fmt.Sprintf("%s: denied %s (%s), %s; try again in %s", name, permits,
			strings.ReplaceAll(d.Reason.String(), "_", " "), left, draw.About(d.RetryAfter))
	case d.Delay > 0:
		left += "; act in " + draw.About(d.Delay)
	}
	return fmt.Sprintf("%s: allowed %s, %s", name, permits, left)
}

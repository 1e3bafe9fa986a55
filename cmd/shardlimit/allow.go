package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

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
			"allowed, 1 denied or failed, 2 the command line is wrong. A change that was begun and left is waited " +
			"for, up to 3 seconds.\n\nExample:\n\n" +
			"  shardlimit allow mails --redis 10.0.0.1:6379 --quiet && send-mail",
		Flags: append([]cli.Flag{
			keyFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print the decision as one JSON object; times are in microseconds"},
			&cli.BoolFlag{Name: "quiet", Usage: "print nothing"},
		}, askerFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return allow(ctx, cmd, con) },
	}
}

// permitsOf reads a number of permits.
func permitsOf(what, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > shardlimit.MaxPermits {
		return 0, usagef("%s is %q; it must be a whole number of permits, 1 to %s", what, text,
			draw.Count(shardlimit.MaxPermits))
	}
	return n, nil
}

func allow(ctx context.Context, cmd *cli.Command, con console) error {
	n := int64(1)
	if text := cmd.Args().Get(1); text != "" {
		var err error
		if n, err = permitsOf("N", text); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return withAsker(ctx, cmd, func(limiter *shardlimit.Limiter) error {
		d, err := allowSettled(ctx, con, limiter, n)
		if err != nil {
			return explain(err, limiter.Name())
		}
		switch {
		case cmd.Bool("quiet"):
		case cmd.Bool("json"):
			err = json.NewEncoder(con.out).Encode(decisionJSON{limiter.Name(), serve.AnswerOf(d)})
		default:
			err = printDecision(con.out, limiter.Name(), n, d)
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

func printDecision(w io.Writer, name string, n int64, d shardlimit.Decision) error {
	text := fmt.Sprintf("%s: allowed %s, %s of %s left", draw.Name(name), draw.Plural(n, "permit"),
		draw.Count(d.Remaining), draw.Count(d.Limit))
	switch {
	case !d.Allowed && d.Mode() == shardlimit.Closed:
		text = fmt.Sprintf("%[1]s: denied %[2]s: the limit is closed; shardlimit set %[1]s --mode enforced opens it",
			draw.Name(name), draw.Plural(n, "permit"))
	case !d.Allowed:
		text = fmt.Sprintf("%s: denied %s (%s), %s of %s left; try again in %s", draw.Name(name),
			draw.Plural(n, "permit"), strings.ReplaceAll(d.Reason.String(), "_", " "), draw.Count(d.Remaining),
			draw.Count(d.Limit), draw.About(d.RetryAfter))
	case d.Delay > 0:
		text += fmt.Sprintf("; act in %s", draw.About(d.Delay))
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

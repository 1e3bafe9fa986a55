package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

const runHelp = `Waits until the limit grants a permit, and then runs the command in its
place: with this process' input, output, number and signals, and its exit
code. If no permit came it is 1. Not on Windows.

What stands behind COMMAND is its own; a command with flags of this program
before it, or whose name begins with a dash, needs the --.

Example, five mails a minute from however many shells:

  shardlimit run mails --redis 10.0.0.1:6379 -- send-mail ann@example.org`

func runCommand(con console) *cli.Command {
	beforeCommand := 2 // what stands behind COMMAND is its own
	return &cli.Command{
		Name:         "run",
		Usage:        "wait for a permit, then run a command",
		ArgsUsage:    "NAME [--] COMMAND [ARGUMENT...]",
		Description:  runHelp,
		StopOnNthArg: &beforeCommand,
		Flags: append([]cli.Flag{
			keyFlag(),
			&cli.Int64Flag{Name: "n", Value: 1, Usage: "wait for this `NUMBER` of permits"},
			&cli.DurationFlag{Name: "timeout", HideDefault: true, Validator: atLeast(time.Millisecond),
				Usage: "give up if they do not come within this `TIME`; left out: wait for ever"},
		}, askerFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return runWithPermit(ctx, cmd, con) },
	}
}

func runWithPermit(ctx context.Context, cmd *cli.Command, con console) error {
	args := cmd.Args().Slice()
	if len(args) < 2 {
		return usagef("run needs the NAME of a limit and a command: %s mails -- send-mail", cmd.FullName())
	}
	if runtime.GOOS == "windows" {
		return errors.New("this system has no way to run a command in place of another; use allow")
	}
	program, err := exec.LookPath(args[1])
	if err != nil {
		return usagef("there is no command %q: %w", args[1], err)
	}
	if err := waitForPermit(ctx, cmd, con); err != nil {
		return err
	}
	return fmt.Errorf("%s cannot be run: %w; its permits are spent", program,
		syscall.Exec(program, args[1:], os.Environ()))
}

// waitForPermit returns when the permits are granted.
func waitForPermit(ctx context.Context, cmd *cli.Command, con console) error {
	log := slog.New(slog.NewTextHandler(con.err, nil))
	return withLimit(ctx, cmd, forLong, log, func(ctx context.Context, limiter *shardlimit.Limiter) error {
		n, name := cmd.Int64("n"), draw.Name(limiter.Name())
		if !cmd.IsSet("timeout") {
			return limiter.WaitN(ctx, n)
		}
		within, cancel := context.WithTimeout(ctx, cmd.Duration("timeout"))
		defer cancel()
		err := limiter.WaitN(within, n)
		late := errors.Is(err, shardlimit.ErrWaitTooLong) ||
			ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
		if late && !errors.Is(err, shardlimit.ErrUnavailable) {
			return fmt.Errorf("%s has not %s free within %s; the command was not run", name, draw.Plural(n, "permit"),
				draw.Span(cmd.Duration("timeout")))
		}
		return err
	})
}

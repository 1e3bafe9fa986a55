package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/urfave/cli/v3"
)

const runHelp = `Waits until the limit grants a permit, and then runs the command in its
place: with this process' input, output, number and signals. Callers of all
processes are served in turn, and fairly.

What stands behind COMMAND is its own; a command with flags of this program
before it, or whose name begins with a dash, needs the --.

Example, five mails a minute from however many shells:

  shardlimit run mails --redis 10.0.0.1:6379 -- send-mail ann@example.org

Exit codes: those of the command; before it runs 1 no permit came, 2 the
command line is wrong or there is no such command.`

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
			&cli.DurationFlag{Name: "timeout", HideDefault: true,
				Usage: "give up if they do not come within this `TIME`; left out: wait for ever"},
		}, askerFlags()...),
		Action: func(ctx context.Context, cmd *cli.Command) error { return runWithPermit(ctx, cmd, con) },
	}
}

func runWithPermit(ctx context.Context, cmd *cli.Command, con console) error {
	args := cmd.Args().Slice()
	if len(args) < 2 {
		return usagef("%s needs the NAME of a limit and a command: %s mails -- send-mail", called(cmd),
			cmd.FullName())
	}
	if n := cmd.Int64("n"); n < 1 || n > shardlimit.MaxPermits {
		return usagef("--n is %d; it must be 1 to %s", n, draw.Count(shardlimit.MaxPermits))
	}
	if timeout := cmd.Duration("timeout"); cmd.IsSet("timeout") && timeout <= 0 {
		return usagef("--timeout is %s; it must be positive", timeout)
	}
	program, err := exec.LookPath(args[1])
	if err != nil {
		return usagef("there is no command %q: %w", args[1], err)
	}
	if err := waitForPermit(ctx, cmd, con); err != nil {
		return err
	}
	return replaceBy(program, args[1:], con)
}

// waitForPermit returns when the permits are granted.
func waitForPermit(ctx context.Context, cmd *cli.Command, con console) error {
	// Nothing is ignored here: the command would inherit that.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return withAsker(ctx, cmd, func(limiter *shardlimit.Limiter) error {
		n := cmd.Int64("n")
		tell := time.AfterFunc(tellAfter, func() {
			_, _ = fmt.Fprintf(con.err, "shardlimit: waiting for %s of %s\n", draw.Plural(n, "permit"),
				draw.Name(limiter.Name()))
		})
		defer tell.Stop()
		if !cmd.IsSet("timeout") {
			return explain(limiter.WaitN(ctx, n), limiter.Name())
		}
		within, cancel := context.WithTimeout(ctx, cmd.Duration("timeout"))
		defer cancel()
		err := limiter.WaitN(within, n)
		late := errors.Is(err, shardlimit.ErrWaitTooLong) || ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
		if late && !errors.Is(err, shardlimit.ErrUnavailable) {
			return fmt.Errorf("%s has not %s free within %s; the command was not run", draw.Name(limiter.Name()),
				draw.Plural(n, "permit"), draw.Span(cmd.Duration("timeout")))
		}
		return explain(err, limiter.Name())
	})
}

// tellAfter is how long a command waits in silence.
const tellAfter = 2 * time.Second

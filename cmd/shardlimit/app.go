package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
)

// run executes a command line (with the program's name first) and returns the exit code.
func run(ctx context.Context, args []string, con console) int {
	app := newApp(con)
	err := app.Run(ctx, args)
	if err != nil && !errors.Is(err, errTold) {
		// as errors of the library begin
		_, _ = fmt.Fprintf(con.err, "shardlimit: %s\n", strings.TrimPrefix(err.Error(), "shardlimit: "))
	}
	return exitCode(err)
}

func newApp(con console) *cli.Command {
	app := &cli.Command{
		Name:  "shardlimit",
		Usage: "rate limits that are split over many Redis nodes and shared by many processes",
		Description: "Begin with\n\n  shardlimit demo\n\nwhich needs no Redis. " +
			"Exit codes: 0 done, 1 denied or failed, 2 the command line is wrong.",
		Commands: []*cli.Command{
			demoCommand(con), paceCommand(con), serveCommand(con), showCommand(con), topCommand(con), setCommand(con),
			resetCommand(con), deleteCommand(con), versionCommand(con),
		},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if name := cmd.Args().First(); name != "" {
				return usagef("there is no command %q; see shardlimit --help", name)
			}
			_ = cli.ShowAppHelp(cmd)
			return usageError{errTold}
		},
		Suggest:         false,
		HideVersion:     true,
		HideHelpCommand: true,
		ExitErrHandler:  func(context.Context, *cli.Command, error) {}, // run decides
		Writer:          con.out,
		ErrWriter:       con.err,
	}
	prepare(app)
	return app
}

// prepare makes mistakes on the command line return instead of printing pages of help. Each command
// takes one argument if its ArgsUsage names it, or none.
func prepare(cmd *cli.Command) {
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return usagef("%w; see %s --help", err, cmd.FullName())
	}
	for _, c := range cmd.Commands {
		c.HideHelpCommand = true
		c.Before = noMore
		prepare(c)
	}
}

// nameArgument returns the only argument of a command, the name of a limit.
func nameArgument(cmd *cli.Command) (string, error) {
	if cmd.Args().Len() == 0 {
		return "", usagef("%s needs the NAME of a limit; see %s --help", cmd.FullName(), cmd.FullName())
	}
	return cmd.Args().First(), nil
}

// noMore refuses arguments that would be ignored. It comes before every other check, as what else
// is missing may stand among them: "set mails 5/s" lacks a --rate.
func noMore(ctx context.Context, cmd *cli.Command) (context.Context, error) {
	switch args := cmd.Args(); {
	case cmd.ArgsUsage == "" && args.Len() > 0:
		return ctx,
			usagef("%s takes no argument, but got %q; see %s --help", cmd.FullName(), args.First(), cmd.FullName())
	case args.Len() > 1:
		return ctx,
			usagef("%s takes one %s, but also got %q; see %s --help", cmd.FullName(), cmd.ArgsUsage, args.Get(1),
				cmd.FullName())
	}
	return ctx, nil
}

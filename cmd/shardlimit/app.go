package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// completing is the last argument when a shell asks what may stand before it.
const completing = "--generate-shell-completion"

// run executes a command line (with the program's name first) and returns the exit code.
func run(ctx context.Context, args []string, con console) int {
	app := newApp(con)
	if slices.Contains(args, completing) {
		for _, c := range app.Commands {
			c.Before = nil // what is typed so far need not be right
		}
	}
	if len(args) > 1 && args[1] == "help" {
		args = append(slices.Concat(args[:1], args[2:]), "--help")
	}
	err := knownCommand(app, args[1:])
	if err == nil {
		err = app.Run(ctx, args)
	}
	if err != nil && !errors.Is(err, errTold) {
		_, _ = fmt.Fprintf(con.err, "shardlimit: %s\n", oneLine(err))
	}
	return exitCode(err)
}

func newApp(con console) *cli.Command {
	app := &cli.Command{
		Name:  "shardlimit",
		Usage: "rate limits that are split over many Redis nodes and shared by many processes",
		Description: "Begin with\n\n  shardlimit demo\n\nwhich needs no Redis. " +
			"Exit codes: 0 done, 1 denied or failed, 2 the command line is wrong.",
		Commands: commands(con),
		Flags: []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Local: true,
			Usage: "print the version"}},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Bool("version") {
				return printVersion(con)
			}
			_ = cli.ShowAppHelp(cmd)
			return usageError{errTold}
		},
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: describeCompletion,
		HideHelpCommand:                 true,
		ExitErrHandler:                  func(context.Context, *cli.Command, error) {}, // run decides
		Writer:                          con.out,
		ErrWriter:                       con.err,
	}
	prepare(app)
	return app
}

// commands are in the order in which --help lists them.
func commands(con console) []*cli.Command {
	return []*cli.Command{
		demoCommand(con), allowCommand(con), runCommand(con), paceCommand(con), serveCommand(con),
		showCommand(con), topCommand(con), setCommand(con), resetCommand(con), deleteCommand(con),
		rebalanceCommand(con),
	}
}

// prepare makes mistakes on the command line return instead of printing pages of help. A command
// takes the arguments that its ArgsUsage names.
func prepare(cmd *cli.Command) {
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return usagef("%s; see %s --help", mistake(cmd, err), cmd.FullName())
	}
	for _, c := range cmd.Commands {
		c.HideHelpCommand = true
		c.Before = noMore
		if len(c.Commands) == 0 {
			c.CommandNotFound = helpInstead
		}
		prepare(c)
	}
}

// helpInstead is for --help beside arguments, which the command line package takes for commands.
func helpInstead(_ context.Context, cmd *cli.Command, _ string) {
	cli.HelpPrinter(cmd.Root().Writer, cli.CommandHelpTemplate, cmd)
}

// called is a command in what is said about it. The name of the program is said before.
func called(cmd *cli.Command) string {
	if cmd.Root() == cmd {
		return "the program"
	}
	return strings.TrimPrefix(cmd.FullName(), cmd.Root().Name+" ")
}

// nameArgument returns the only argument of a command, the name of a limit.
func nameArgument(cmd *cli.Command) (string, error) {
	if cmd.Args().Len() == 0 {
		return "", usagef("%s needs the NAME of a limit; see %s --help", called(cmd), cmd.FullName())
	}
	return cmd.Args().First(), nil
}

// noMore refuses arguments that would be ignored. It comes before every other check, as what else
// is missing may stand among them: "set mails 5/s" lacks a --rate.
func noMore(ctx context.Context, cmd *cli.Command) (context.Context, error) {
	names := strings.Fields(cmd.ArgsUsage)
	args := cmd.Args()
	switch {
	case slices.Contains(names, "[--]"), args.Len() <= len(names):
		return ctx, nil
	case len(names) == 0:
		return ctx,
			usagef("%s takes no argument, but got %q; see %s --help", called(cmd), args.First(), cmd.FullName())
	}
	return ctx,
		usagef("%s takes %s and nothing else, but also got %q; see %s --help", called(cmd), cmd.ArgsUsage,
			args.Get(len(names)), cmd.FullName())
}

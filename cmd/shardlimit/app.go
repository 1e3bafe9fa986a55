// Command shardlimit shows, changes and uses rate limits that are split over
// many Redis nodes. See shardlimit --help, and the package documentation of
// github.com/shardlimit/shardlimit for what a limit promises.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

func main() {
	os.Exit(run(context.Background(), os.Args, console{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// console is what a command reads from and writes to.
type console struct {
	in, out, err *os.File
}

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

// knownCommand refuses a command that there is not, before its flags are looked at: which flags
// there are depends on the command.
func knownCommand(app *cli.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "completion" || app.Command(args[0]) != nil ||
		slices.Contains(args, completing) {
		return nil
	}
	return usagef("there is no command %q; did you mean %s? see shardlimit --help", args[0],
		cli.SuggestCommand(app.Commands, args[0]))
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
				_, err := fmt.Fprintln(con.out, "shardlimit", versionText())
				return err
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
		showCommand(con), setCommand(con), resetCommand(con), deleteCommand(con), rebalanceCommand(con),
	}
}

// version is that of a build whose history the Go tool does not know:
//
//	go build -ldflags "-X main.version=v1.2.3" ./cmd/shardlimit
var version string

// versionText is that version, else what the Go tool has stamped the build with.
func versionText() string {
	stamped := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		stamped = info.Main.Version
	}
	return cmp.Or(version, stamped, "(devel)")
}

// describeCompletion fits the command of the command line package in with the others.
func describeCompletion(c *cli.Command) {
	c.Hidden = false
	c.Usage = "print a completion script for a shell"
	c.Description = "Example:\n\n  source <(shardlimit completion bash)     # in ~/.bashrc; needs bash-completion"
	c.Action = func(context.Context, *cli.Command) error {
		return usagef("completion needs the name of a shell; see shardlimit completion --help")
	}
	prepare(c)
}

// prepare makes mistakes on the command line return instead of printing pages of help. A command
// takes the arguments that its ArgsUsage names.
func prepare(cmd *cli.Command) {
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		hint := ""
		if cmd.Root() == cmd {
			hint = "flags come after the command; "
		}
		return usagef("%w; %ssee %s --help", err, hint, cmd.FullName())
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

// noMore refuses arguments that would be ignored. It comes before every other check, as what else
// is missing may stand among them: "set mails 5/s" lacks a --rate.
func noMore(ctx context.Context, cmd *cli.Command) (context.Context, error) {
	names := strings.Fields(cmd.ArgsUsage)
	if slices.Contains(names, "[--]") || cmd.Args().Len() <= len(names) {
		return ctx, nil
	}
	return ctx, usagef("%s takes %s, but also got %q; see %s --help", cmd.Name,
		cmp.Or(cmd.ArgsUsage, "no argument"), cmd.Args().Get(len(names)), cmd.FullName())
}

// helpWidth is how many columns a page of help has at the most.
const helpWidth = 80

func init() {
	cli.HelpPrinterCustom = func(w io.Writer, page string, of any, _ map[string]any) {
		cli.DefaultPrintHelpCustom(w, page, of, map[string]any{"wrapAt": func() int { return helpWidth }})
	}
	describe := cli.FlagStringer
	cli.FlagStringer = func(f cli.Flag) string { return underName(describe(f)) }
}

// underName puts what a flag does below its name, in lines of its own.
func underName(flag string) string {
	const margin, indent = 6, "    " // the page has the margin
	name, usage, _ := strings.Cut(flag, "\t")
	var b strings.Builder
	b.WriteString(name)
	room := 0
	for _, word := range strings.Fields(usage) {
		if room -= len(word) + 1; room < 0 {
			b.WriteString("\n" + indent + word)
			room = helpWidth - margin - len(indent) - len(word)
			continue
		}
		b.WriteString(" " + word)
	}
	return b.String()
}

// atLeast returns a check of a flag's time.
func atLeast(least time.Duration) func(time.Duration) error {
	return func(d time.Duration) error {
		if d < least {
			return fmt.Errorf("it must be at least %s", least)
		}
		return nil
	}
}

// action returns the action of a command: it runs what its flags and arguments say.
func action[J interface {
	run(ctx context.Context, con console) error
}](read func(*cli.Command) (J, error), con console) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		job, err := read(cmd)
		if err != nil {
			return err
		}
		return job.run(ctx, con)
	}
}

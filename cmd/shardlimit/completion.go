package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"
)

const completionHelp = `Prints a script that has a shell complete commands and flags. The script asks
shardlimit itself, so it need not be renewed with a new version.

  source <(shardlimit completion bash)     # in ~/.bashrc; needs the package bash-completion
  source <(shardlimit completion zsh)      # in ~/.zshrc
  shardlimit completion fish > ~/.config/fish/completions/shardlimit.fish`

// describeCompletion fits the command of the command line package in with the others.
func describeCompletion(c *cli.Command) {
	c.Hidden = false
	c.Usage = "print a completion script for a shell"
	c.Description = completionHelp
	for _, shell := range c.Commands {
		shell.Usage = "for " + shell.Name
		shell.Description = completionHelp
	}
	c.Action = func(_ context.Context, cmd *cli.Command) error {
		var shells []string
		for _, shell := range cmd.Commands {
			shells = append(shells, shell.Name)
		}
		return usagef("%s needs the name of a shell: %s", called(cmd), strings.Join(shells, ", "))
	}
	prepare(c)
}

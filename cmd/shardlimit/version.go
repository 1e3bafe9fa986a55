package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v3"
)

func versionCommand(con console) *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "Example:\n\n  shardlimit version",
		Action: func(_ context.Context, cmd *cli.Command) error {
			_, err := fmt.Fprintln(con.out, versionText())
			return err
		},
	}
}

// versionText is the module's version as the Go tool stamped it, with the
// commit where there is one.
func versionText() string {
	version, commit, dirty := "(devel)", "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = " " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
	}
	return fmt.Sprintf("shardlimit %s%s%s (%s %s/%s)", version, commit, dirty, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// Where the Go tool knows no version, as in a build from a clone without its history:
//
//	go build -ldflags "-X main.version=v1.2.3 -X main.commit=$(git rev-parse HEAD)" ./cmd/shardlimit
var version, commit string

func printVersion(con console) error {
	_, err := fmt.Fprintln(con.out, versionText())
	return err
}

// commitDigits are enough to find a commit.
const commitDigits = 12

// versionText is the version of the build, else that of the module as the Go tool stamped it, with
// the commit where one is known.
func versionText() string {
	version, commit, dirty := cmp.Or(version, "(devel)"), commit, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && version == "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && commit == "":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+changes"
			}
		}
	}
	if commit != "" {
		commit = " " + commit[:min(len(commit), commitDigits)]
	}
	return fmt.Sprintf("shardlimit %s%s%s (%s %s/%s)", version, commit, dirty, runtime.Version(), runtime.GOOS,
		runtime.GOARCH)
}

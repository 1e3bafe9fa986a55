package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/serve"
)

// whereFlags say where Redis is, one of them.
var whereFlags = []string{"redis", "cluster", "sentinel", "embedded"}

// applySettings sets the flags that only the file of --settings sets, and returns its limits. What
// the command line or the environment says comes first.
func applySettings(cmd *cli.Command) ([]serve.Declaration, error) {
	file := cmd.String("settings")
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--settings: %w", err)
	}
	settings, err := serve.ParseSettings(file, content)
	if err != nil {
		return nil, usagef("--settings: %w", err)
	}
	given := givenFlags(cmd)
	for _, s := range settings.Flags {
		kind, known := flagOf(cmd, s.Name)
		if !known {
			return nil, usagef("--settings: %s:%d: there is no setting %q; see %s --help", file, s.Line, s.Name,
				cmd.FullName())
		}
		if given[s.Name] {
			continue
		}
		if _, several := kind.(*cli.StringSliceFlag); !several {
			s.Values = []string{strings.Join(s.Values, ",")}
		}
		for _, value := range s.Values {
			if err := cmd.Set(s.Name, value); err != nil {
				if kind := kindOf(err.Error()); kind != "" {
					err = fmt.Errorf("%q is not %s", value, kind)
				}
				return nil, usagef("--settings: %s:%d: %s: %w", file, s.Line, s.Name, err)
			}
		}
	}
	return settings.Limits, nil
}

// givenFlags are those that the file cannot set. Where Redis is, is said as a whole.
func givenFlags(cmd *cli.Command) map[string]bool {
	given := map[string]bool{}
	for _, f := range cmd.Flags {
		for _, name := range f.Names() {
			given[name] = cmd.IsSet(name)
		}
	}
	for _, name := range whereFlags {
		if given[name] {
			for _, other := range whereFlags {
				given[other] = true
			}
		}
	}
	return given
}

// flagOf finds a flag that a file may set.
func flagOf(cmd *cli.Command, name string) (cli.Flag, bool) {
	for _, f := range cmd.Flags {
		if f.Names()[0] == name && name != "settings" && name != "help" {
			return f, true
		}
	}
	return nil, false
}

// Command release makes a release of all modules of a repository with a go.work, or tries one.
//
//	release prepare v0.1.0   writes the version into go.mod, go.work and the changelog
//	release tags v0.1.0      prints the tags that the release needs
//	release try v0.1.0       makes them in a clone, and installs from a module proxy of files; -sbom
//	                         writes what each module is made of
//	release api              compares what modules export with the last release
//
// It is run in a folder of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/mod/semver"
)

var errUsage = errors.New("usage: release [-root DIR] [-build=false] [-sbom DIR] prepare|tags|try VERSION, such as v0.1.0; or api")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if config, made := gitConfig(); made == nil {
		_ = os.Remove(config)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(out)
	root := flags.String("root", "..", "folder of the repository")
	build := flags.Bool("build", true, "try also builds nested modules")
	sbom := flags.String("sbom", "", "try writes the bill of materials of each module into this folder")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	folder, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	if flags.NArg() == 1 && flags.Arg(0) == "api" {
		return api(folder, out)
	}
	if flags.NArg() != 2 || semver.Canonical(flags.Arg(1)) != flags.Arg(1) {
		return errUsage
	}
	version := flags.Arg(1)
	switch flags.Arg(0) {
	case "prepare":
		return prepare(folder, version)
	case "tags":
		text, err := os.ReadFile(filepath.Join(folder, "CHANGELOG.md"))
		if err == nil && !changelogHas(string(text), version) {
			return fmt.Errorf("the changelog has no %s: prepare comes before tags", version)
		}
		modules, err := modulesOf(folder)
		for _, m := range modules {
			if m.released() {
				fmt.Fprintln(out, "git tag", m.tag(version))
			}
		}
		return err
	case "try":
		return try(ctx, folder, version, *build, *sbom, out)
	}
	return errUsage
}

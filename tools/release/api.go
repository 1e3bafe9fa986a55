package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/tools/go/packages"
)

// api compares what modules export with the last release, if there is one. Each change that may
// break a caller must be named in the changelog, before the first release that has it.
func api(root string, out io.Writer) error {
	last, err := git(root, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
	if err != nil {
		fmt.Fprintln(out, "no release to compare with")
		return nil //nolint:nilerr // git fails where there is no tag
	}
	last = strings.TrimSpace(last)
	before, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(before) }()
	if _, err := git(root, "clone", "-q", "--no-hardlinks", "-b", last, root, before); err != nil {
		return err
	}
	modules, err := modulesOf(before)
	if err != nil {
		return err
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	_, next, _ := strings.Cut(string(changelog), "\n## ")
	next, _, _ = strings.Cut(next, "\n## ")
	var unnamed error
	told := 0
	for _, m := range modules {
		if _, program := os.Stat(filepath.Join(before, m.dir, "main.go")); !m.released() || program == nil {
			continue
		}
		changes, err := breaking(m, before, root)
		if err != nil {
			return err
		}
		for _, c := range changes {
			fmt.Fprintf(out, "%s since %s: %s\n", m.path, last, c)
			told++
			name, _, _ := strings.Cut(c, ":")
			if !strings.Contains(next, name[strings.LastIndexByte(name, '.')+1:]) {
				unnamed = errors.Join(unnamed, fmt.Errorf("CHANGELOG.md does not name what may break callers: %s", c))
			}
		}
	}
	if told == 0 {
		fmt.Fprintln(out, "nothing since", last, "may break callers")
	}
	return unnamed
}

// uncovered reports whether no version promises anything of packages with this in their path: see
// "Versions" in CONTRIBUTING.md.
func uncovered(folder string) bool {
	return slices.Contains([]string{"internal", "shard", "fairness", "script", "examples"}, folder)
}

// breaking returns what may break a caller of the module.
func breaking(m module, before, now string) (changes []string, err error) {
	var both [2]*apidiff.Module
	for i, root := range []string{before, now} {
		all, err := packages.Load(&packages.Config{
			Dir:  filepath.Join(root, m.dir),
			Env:  append(os.Environ(), "GOWORK="), // that of the repository
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		}, "./...")
		if err != nil {
			return nil, err
		}
		both[i] = &apidiff.Module{Path: m.path}
		for _, p := range all {
			if len(p.Errors) > 0 {
				return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
			}
			if p.Name != "main" && !slices.ContainsFunc(strings.Split(p.PkgPath, "/"), uncovered) {
				both[i].Packages = append(both[i].Packages, p.Types)
			}
		}
	}
	for _, c := range apidiff.ModuleChanges(both[0], both[1]).Changes {
		if !c.Compatible {
			changes = append(changes, c.Message)
		}
	}
	return changes, nil
}

package main

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// A module is one of those that go.work names.
type module struct {
	path string // as it is imported
	dir  string // in the repository, with slashes; "" for its root
	file string // its go.mod
}

// released tells whether users get the module. What lies in internal, bench or deploy serves
// ourselves, and examples are read.
func (m module) released() bool {
	parts := strings.Split(m.dir, "/")
	return !slices.Contains(parts, "internal") && !slices.Contains([]string{"bench", "deploy", "examples"}, parts[0])
}

// tag is the one that makes a version of the module.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

func workFile(root string) (name string, work *modfile.WorkFile, err error) {
	name = filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return name, nil, err
	}
	work, err = modfile.ParseWork(name, text, nil)
	return name, work, err
}

// modulesOf are the modules of the repository, the root first.
func modulesOf(root string) (modules []module, err error) {
	_, work, err := workFile(root)
	if err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		m := module{dir: strings.TrimPrefix(path.Clean(use.Path), "."), file: filepath.Join(root, use.Path, "go.mod")}
		text, err := os.ReadFile(m.file)
		if err != nil {
			return nil, err
		}
		m.path = modfile.ModulePath(text)
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.dir, b.dir) })
	return modules, nil
}

// prepare has every module require the version of its siblings, go.work replace that by folders,
// and the changelog tell the day.
func prepare(root, version string) error {
	modules, err := modulesOf(root)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if err := m.require(modules, version); err != nil {
			return err
		}
	}
	name, work, err := workFile(root)
	if err != nil {
		return err
	}
	for _, m := range modules {
		for _, r := range work.Replace {
			if r.Old.Path != m.path {
				continue
			}
			folder := r.New.Path // gone with what is dropped
			if err := work.DropReplace(m.path, r.Old.Version); err != nil {
				return err
			}
			if err := work.AddReplace(m.path, version, folder, ""); err != nil {
				return err
			}
			break
		}
	}
	work.SortBlocks()
	work.Cleanup()
	if err := os.WriteFile(name, modfile.Format(work.Syntax), 0o644); err != nil {
		return err
	}
	return dateChangelog(root, version)
}

// require changes the version of those siblings that the module requires already.
func (m module) require(siblings []module, version string) error {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	file, err := modfile.Parse(m.file, text, nil)
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		if slices.ContainsFunc(siblings, func(s module) bool { return s.path == r.Mod.Path }) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	file.Cleanup()
	text, err = file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(m.file, text, 0o644)
}

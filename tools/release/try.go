package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// try makes the release in a clone, and installs it where nothing else is. A folder in sbom gets
// the bill of materials of each module.
func try(ctx context.Context, root, version string, build bool, sbom string, out io.Writer) error {
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	clone := filepath.Join(work, "clone")
	modules, err := tagged(root, clone, version)
	if err != nil {
		return err
	}
	proxy := filepath.Join(work, "proxy")
	for _, m := range modules {
		if !m.released() {
			continue
		}
		t := moduleTag{clone: clone, tag: m.tag(version), path: m.path, dir: m.dir, version: version}
		if err := t.publish(proxy); err != nil {
			return fmt.Errorf("%s: %w", t.tag, err)
		}
		fmt.Fprintln(out, "published", m.path, "from the tag", t.tag)
	}
	env, err := environment(ctx, work, proxy)
	if err != nil {
		return err
	}
	for _, m := range modules {
		if m.released() {
			if err := m.use(ctx, work, clone, version, env, build, out); err != nil {
				return fmt.Errorf("%s: %w", m.path, err)
			}
		}
	}
	if sbom == "" {
		return nil
	}
	return listAll(ctx, modules, work, sbom, clone, env)
}

// tagged clones the last commit, and makes the tags of the version, after prepare where they are
// missing.
func tagged(root, clone, version string) ([]module, error) {
	if _, err := git(root, "clone", "-q", "--no-hardlinks", root, clone); err != nil {
		return nil, err
	}
	if _, err := git(clone, "rev-parse", "-q", "--verify", "refs/tags/"+version); err == nil {
		if _, err := git(clone, "checkout", "-q", version); err != nil {
			return nil, err
		}
		return modulesOf(clone)
	}
	if err := prepare(clone, version); err != nil {
		return nil, err
	}
	if _, err := git(clone, "commit", "-q", "--allow-empty", "-a", "-m", "Release "+version); err != nil {
		return nil, err
	}
	modules, err := modulesOf(clone)
	for _, m := range modules {
		if m.released() && err == nil {
			_, err = git(clone, "tag", m.tag(version))
		}
	}
	return modules, err
}

// environment has the go command take our modules from the proxy, and the others from where they
// came from before. Its module cache is its own.
func environment(ctx context.Context, work, proxy string) ([]string, error) {
	known, err := goCommand(ctx, work, nil, "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	cache, upstream, _ := strings.Cut(strings.TrimSpace(known), "\n")
	return []string{
		"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download") + "," + upstream,
		"GOMODCACHE=" + filepath.Join(work, "modules"), "GOBIN=" + filepath.Join(work, "bin"),
		// Without paths, what is compiled in one new folder serves in the next.
		"GOFLAGS=-modcacherw -trimpath", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off", "GOTOOLCHAIN=local",
	}, nil
}

// use gets a module as its users do: a library into an empty folder, a program by go install.
func (m module) use(ctx context.Context, work, clone, version string, env []string, build bool, out io.Writer) error {
	dir, err := os.MkdirTemp(work, "empty")
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(clone, m.dir, "main.go")); err == nil {
		return m.install(ctx, dir, work, version, env, build, out)
	}
	for _, args := range [][]string{{"mod", "init", "example.org/first"}, {"get", m.path + "@" + version}} {
		if _, err := goCommand(ctx, dir, env, args...); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "got      ", m.path+"@"+version)
	quickstart, err := os.ReadFile(filepath.Join(clone, m.dir, "examples", "quickstart", "main.go"))
	if err != nil { // only the root has one
		if !build {
			return nil
		}
		return m.compile(ctx, dir, version, env, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), quickstart, 0o644); err != nil {
		return err
	}
	if _, err := goCommand(ctx, dir, env, "mod", "tidy"); err != nil {
		return err
	}
	printed, err := goCommand(ctx, dir, env, "run", ".")
	fmt.Fprintf(out, "ran       the quick start:\n%s", printed)
	return err
}

// compile builds a program that imports the module.
func (m module) compile(ctx context.Context, dir, version string, env []string, out io.Writer) error {
	program := fmt.Appendf(nil, "package main\n\nimport _ %q\n\nfunc main() {}\n", m.path)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), program, 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"get", m.path + "@" + version}, {"build", "-o", os.DevNull, "."}} {
		if _, err := goCommand(ctx, dir, env, args...); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "built    ", "a program with", m.path)
	return nil
}

func (m module) install(ctx context.Context, dir, work, version string, env []string, build bool, out io.Writer) error {
	what := m.path + "@" + version
	if !build { // whether everything that it needs can be found
		_, err := goCommand(ctx, dir, env, "install", "-n", what)
		if err == nil {
			fmt.Fprintln(out, "resolved ", what)
		}
		return err
	}
	if _, err := goCommand(ctx, dir, env, "install", what); err != nil {
		return err
	}
	name := filepath.Base(m.path)
	said, err := exec.CommandContext(ctx, filepath.Join(work, "bin", name), "--version").CombinedOutput()
	if err == nil && !strings.Contains(string(said), version) {
		err = fmt.Errorf("it says that it is %s", said)
	}
	fmt.Fprintf(out, "installed %s: %s", what, said)
	return err
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// built is the path of the program, built once for all tests.
var built string

func TestMain(m *testing.M) { os.Exit(buildAndTest(m)) }

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "shardlimit-test-")
	defer func() { _ = os.RemoveAll(dir) }()
	for _, setting := range []string{"REDIS", "CLUSTER", "SENTINEL", "PREFIX"} { // of who runs the tests
		err = errors.Join(err, os.Unsetenv("SHARDLIMIT_"+setting))
	}
	built = filepath.Join(dir, "shardlimit")
	build := exec.Command("go", "build", "-ldflags", "-s -w -X main.version=v1.2.3", "-o", built, ".")
	build.Stderr = os.Stderr
	if err == nil {
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the program:", err)
		return 1
	}
	return m.Run()
}

// pacer is a running pace process.
type pacer struct {
	t               *testing.T
	cmd             *exec.Cmd
	out, rest, errs string
}

// startPace runs pace, reading from stdin. Everything it writes goes to files.
func startPace(t *testing.T, stdin *os.File, rate string, flags ...string) *pacer {
	t.Helper()
	dir := t.TempDir()
	p := &pacer{t: t, out: filepath.Join(dir, "out"), rest: filepath.Join(dir, "rest"), errs: filepath.Join(dir, "err")}
	p.cmd = tool(t, append([]string{"pace", "--rest", p.rest, "--name", "e2e", "--rate", rate}, flags...)...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, create(t, p.out), create(t, p.errs)
	limittest.Must(t, p.cmd.Start())
	return p
}

// wait returns the exit code.
func (p *pacer) wait() int {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// released waits for the end of a process that releases a text, all of its input.
func (p *pacer) released(text string) {
	p.t.Helper()
	if code, out := p.wait(), read(p.t, p.out); code != exitOK || out != text || read(p.t, p.rest) != "" {
		p.t.Errorf("ended with %d, %d of %d bytes: %s", code, len(out), len(text), p.said())
	}
}

func (p *pacer) said() string { return read(p.t, p.errs) }

func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	limittest.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// read returns what is in a file, nothing if there is none.
func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(b)
}

// input writes the lines from..to of the common input to a file and opens it.
func input(t *testing.T, from, to int) (text string, f *os.File) {
	t.Helper()
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "line %d of the input\n", i)
	}
	f, err := os.Open(file(t, "in", b.String()))
	limittest.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return b.String(), f
}

// tool is the program as a process, which does not outlive the test.
func tool(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built, args...)
	cmd.Env = cleanEnv()
	return cmd
}

// cleanEnv is the environment without settings for the program.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "SHARDLIMIT_") })
}

// runHere runs a command line inside of this process, which is much faster than a process of its
// own, and returns all that it wrote.
func runHere(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	nothing, err := os.Open(os.DevNull)
	limittest.Must(t, err)
	defer func() { _ = nothing.Close() }()
	out := create(t, filepath.Join(t.TempDir(), "out"))
	code = run(t.Context(), append([]string{"shardlimit"}, args...), console{in: nothing, out: out, err: out})
	return read(t, out.Name()), code
}

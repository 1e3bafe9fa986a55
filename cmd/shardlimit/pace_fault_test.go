package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// One of three is interrupted, which loses nothing; the others take up its part.
func TestPaceInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			flags, dir, n := sharedLimit(t, "5000/s"), t.TempDir(), 18_000
			var pacers []*pacer
			var texts []string
			var inputs []*os.File
			for i := range 3 {
				tag := strconv.Itoa(i)
				text, stdin := input(t, dir, tag, i*n/3, (i+1)*n/3)
				texts, inputs = append(texts, text), append(inputs, stdin)
				pacers = append(pacers, startPace(t, dir, tag, stdin, flags...))
			}
			await(t, pacers[0].out)
			if err := pacers[0].cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := pacers[0].wait(); code != exitFailed {
				t.Errorf("the interrupted process ended with %d: %s", code, pacers[0].said())
			}
			checkNothingLost(t, pacers[0], texts[0], unread(t, inputs[0], texts[0]))
			for i, p := range pacers[1:] {
				if code := p.wait(); code != exitOK || read(t, p.out) != texts[i+1] {
					t.Errorf("process %d ended with %d, the output has %d of %d bytes: %s",
						i+1, code, len(read(t, p.out)), len(texts[i+1]), p.said())
				}
			}
			checkAudits(t, 5000, pacers...)
		})
	}
}

// await blocks until the file holds something.
func await(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); read(t, path) == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was written to %s", path)
		}
	}
}

// unread is what the shared offset of a file leaves of its text.
func unread(t *testing.T, f *os.File, text string) string {
	t.Helper()
	offset, err := f.Seek(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return text[offset:]
}

// checkNothingLost checks an interrupted process: its output, its rest and what
// it has not read are its input, and it says so.
func checkNothingLost(t *testing.T, p *pacer, text, unread string) {
	t.Helper()
	released, rest := read(t, p.out), read(t, p.rest)
	if released+rest+unread != text {
		t.Errorf("released %d + rest %d + unread %d bytes are not the input of %d", len(released), len(rest),
			len(unread), len(text))
	}
	if released == text || released == "" || !strings.HasSuffix(released, "\n") {
		t.Errorf("%d of %d bytes were released: the test shows nothing, or half a line came out", len(released),
			len(text))
	}
	said := p.said()
	if rest != "" && !strings.Contains(said, p.rest) {
		t.Errorf("standard error does not name the rest file: %s", said)
	}
	next := fmt.Sprintf("line %d of the input, at byte %d: tail -c +%d", strings.Count(released, "\n")+1, len(released),
		len(released)+1)
	if _, err := os.Stat(strings.TrimSuffix(p.out, "out") + "in"); err == nil && !strings.Contains(said, next) {
		t.Errorf("standard error does not say %q: %s", next, said)
	}
	ops, err := history.ReadFiles(p.audit)
	if err != nil || history.Total(ops) != int64(strings.Count(released, "\n")) {
		t.Errorf("%d lines were released, %d audited, %v", strings.Count(released, "\n"), history.Total(ops), err)
	}
}

// With a pipe as input, what the process had not taken is still in the pipe.
func TestPaceInterruptedOnAPipe(t *testing.T) {
	flags, dir := sharedLimit(t, "100/s"), t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	p := startPace(t, dir, "p", r, flags...)
	var sent strings.Builder
	feed := func() {
		for i := range 200 {
			line := fmt.Sprintf("line %d of a pipe\n", i)
			sent.WriteString(line)
			if _, err := w.WriteString(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	feed()
	await(t, p.out)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	feed() // some of this may still be read, the rest stays in the pipe
	if code := p.wait(); code != exitFailed {
		t.Errorf("ended with %d: %s", code, p.said())
	}
	_ = w.Close()
	var left bytes.Buffer
	if _, err := left.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	checkNothingLost(t, p, sent.String(), left.String())
}

// A reader that goes away is like an interrupt.
func TestPaceBrokenPipe(t *testing.T) {
	flags, dir := sharedLimit(t, "1000/s"), t.TempDir()
	text, stdin := input(t, dir, "b", 0, 5000)
	rest, errs := filepath.Join(dir, "b.rest"), filepath.Join(dir, "b.err")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built, append([]string{"pace", "--quiet", "--rest", rest}, flags...)...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = cleanEnv(), stdin, w, create(t, errs)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	got := make([]byte, 100)
	if _, err := r.Read(got); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("ended with %d: %s", code, read(t, errs))
	}
	after := read(t, rest) + unread(t, stdin, text)
	if !strings.HasSuffix(text, after) || len(after) == len(text) || len(after) == 0 ||
		!strings.HasPrefix(after, "line ") {
		t.Errorf("rest and unread input are %d of %d bytes and begin with %.20q", len(after), len(text), after)
	}
	if said := read(t, errs); !strings.Contains(said, "nobody reads the output") {
		t.Errorf("standard error: %s", said)
	}
}

// A line that is too long for the pipe is being written when its reader goes
// away, or when a second signal says to wait no longer: the line is repeated
// in the rest.
func TestPaceInTheMiddleOfALine(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *exec.Cmd, *os.File){
		"the reader goes away": func(t *testing.T, _ *exec.Cmd, r *os.File) { _ = r.Close() },
		"two signals": func(t *testing.T, cmd *exec.Cmd, _ *os.File) {
			for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, rest, errs := filepath.Join(dir, "in"), filepath.Join(dir, "rest"), filepath.Join(dir, "err")
			text := "short\n" + strings.Repeat("x", 300_000) + "\nshort\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			stdin, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stdin.Close() }()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.Close() }()
			cmd := exec.Command(built, "pace", "--embedded", "--name", "e2e", "--rate", "100/s", "--rest", rest)
			cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = cleanEnv(), stdin, w, create(t, errs)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			_ = w.Close()
			if _, err := io.ReadFull(r, make([]byte, len("short\nx"))); err != nil {
				t.Fatal(err)
			}
			end(t, cmd, r)
			_ = cmd.Wait()
			said := read(t, errs)
			if code := cmd.ProcessState.ExitCode(); code != exitFailed ||
				!strings.Contains(said, "the rest has that whole line again") {
				t.Errorf("ended with %d: %s", code, said)
			}
			if got := "short\n" + read(t, rest) + unread(t, stdin, text); got != text {
				t.Errorf("%d bytes of %d are left", len(got), len(text))
			}
		})
	}
}

// While Redis is away, pace waits, says so, and goes on.
func TestPaceWaitsForRedis(t *testing.T) {
	server, dir := redistest.Standalone(t), t.TempDir()
	server.Kill()
	text, stdin := input(t, dir, "w", 0, 50)
	p := startPace(t, dir, "w", stdin, "--name", "e2e", "--rate", "100/s", "--prefix", redistest.Prefix(t), "--redis",
		server.Addr())
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(p.said(),
		"Redis does not answer"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("standard error does not tell about Redis: %s", p.said())
		}
	}
	if out := read(t, p.out); out != "" {
		t.Errorf("%d bytes were released without Redis", len(out))
	}
	server.Restart()
	if code := p.wait(); code != exitOK || read(t, p.out) != text {
		t.Errorf("ended with %d, %d of %d bytes: %s", code, len(read(t, p.out)), len(text), p.said())
	}
}

// Without Redis, an interrupt ends the wait and everything is in the rest.
func TestPaceInterruptedWithoutRedis(t *testing.T) {
	server, dir := redistest.Standalone(t), t.TempDir()
	server.Kill()
	text, stdin := input(t, dir, "w", 0, 50)
	p := startPace(t, dir, "w", stdin, "--name", "e2e", "--rate", "100/s", "--redis", server.Addr())
	await(t, p.errs) // it is under way
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != exitFailed {
		t.Errorf("ended with %d: %s", code, p.said())
	}
	if got := read(t, p.out) + read(t, p.rest) + unread(t, stdin, text); got != text {
		t.Errorf("%d bytes of %d are left: %s", len(got), len(text), p.said())
	}
}

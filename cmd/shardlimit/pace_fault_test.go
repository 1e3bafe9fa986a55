package main

import (
	"fmt"
	"os"
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

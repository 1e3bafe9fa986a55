package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// inputLines is the size of the shared input, which SHARDLIMIT_PACE_LINES sets;
// the full run has 200,000.
func inputLines(t *testing.T) int {
	s := os.Getenv("SHARDLIMIT_PACE_LINES")
	if s == "" {
		return 20_000
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 3 {
		t.Fatalf("SHARDLIMIT_PACE_LINES is %q, want a number from 3", s)
	}
	return n
}

// sharedLimit is what several pace processes have in common.
func sharedLimit(t *testing.T, rate string) []string {
	t.Helper()
	var addresses []string
	for _, s := range redistest.Servers(t, 4) {
		addresses = append(addresses, s.Addr())
	}
	return []string{"--name", "e2e", "--rate", rate, "--prefix", redistest.Prefix(t), "--redis",
		strings.Join(addresses, ",")}
}

// Three processes share one rate over four servers: every line comes out once,
// in order, and no sooner than the limit allows.
func TestPaceSharesARate(t *testing.T) {
	flags, dir, n := sharedLimit(t, "5000/s"), t.TempDir(), inputLines(t)
	began := time.Now()
	var pacers []*pacer
	var texts []string
	for i := range 3 {
		tag := strconv.Itoa(i)
		text, stdin := input(t, dir, tag, i*n/3, (i+1)*n/3)
		texts = append(texts, text)
		pacers = append(pacers, startPace(t, dir, tag, stdin, flags...))
	}
	for i, p := range pacers {
		if code := p.wait(); code != exitOK {
			t.Errorf("process %d ended with %d: %s", i, code, p.said())
		}
		if read(t, p.out) != texts[i] {
			t.Errorf("process %d: the output is not the input", i)
		}
		if rest := read(t, p.rest); rest != "" {
			t.Errorf("process %d left a rest of %d bytes", i, len(rest))
		}
	}
	if took, least := time.Since(began), time.Duration(n/5000-1)*time.Second; took < least {
		t.Errorf("%d lines took %s, which the limit allows in %s", n, took, least)
	}
}

// A limit that is stored with another rate holds, and pace says so.
func TestPaceJoinsTheStoredLimit(t *testing.T) {
	flags, dir := []string{"--prefix", redistest.Prefix(t), "--redis", redistest.Standalone(t).Addr()}, t.TempDir()
	if text, code := shardlimitRun(t, append([]string{"set", "e2e", "--rate", "1000/s"}, flags...)...); code != exitOK {
		t.Fatalf("set ended with %d: %s", code, text)
	}
	text, stdin := input(t, dir, "j", 0, 50)
	p := startPace(t, dir, "j", stdin, append([]string{"--name", "e2e", "--rate", "1/h"}, flags...)...)
	if code := p.wait(); code != exitOK || read(t, p.out) != text {
		t.Errorf("ended with %d, %d of %d bytes: %s", code, len(read(t, p.out)), len(text), p.said())
	}
	if !strings.Contains(p.said(), "e2e is stored with 1000/s, sliding-log") {
		t.Errorf("standard error: %s", p.said())
	}
}

// The same command works on a cluster.
func TestPaceOnACluster(t *testing.T) {
	cluster, dir := redistest.NewCluster(t, 3, 0), t.TempDir()
	flags := []string{"--prefix", redistest.Prefix(t), "--cluster", strings.Join(cluster.Addrs(), ",")}
	text, stdin := input(t, dir, "c", 0, 300)
	p := startPace(t, dir, "c", stdin,
		append([]string{"--name", "e2e", "--rate", "300/s", "--shards", "6"}, flags...)...)
	if code := p.wait(); code != exitOK || read(t, p.out) != text {
		t.Errorf("ended with %d, %d of %d bytes: %s", code, len(read(t, p.out)), len(text), p.said())
	}
	if text, code := shardlimitRun(t, append([]string{"show", "e2e"}, flags...)...); code != exitOK ||
		!strings.Contains(text, "over 6 shards") {
		t.Errorf("show ended with %d: %s", code, text)
	}
}

// And on a Sentinel set.
func TestPaceOnASentinelSet(t *testing.T) {
	set, dir := redistest.NewSentinel(t, 1), t.TempDir()
	text, stdin := input(t, dir, "s", 0, 300)
	p := startPace(t, dir, "s", stdin, "--name", "e2e", "--rate", "300/s", "--prefix", redistest.Prefix(t),
		"--sentinel", set.MasterSet()+"@"+strings.Join(set.Addrs(), ","))
	if code := p.wait(); code != exitOK || read(t, p.out) != text {
		t.Errorf("ended with %d, %d of %d bytes: %s", code, len(read(t, p.out)), len(text), p.said())
	}
}

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
			limittest.AwaitThat(t, "lines are released", func() bool { return read(t, pacers[0].out) != "" })
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
		})
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
}

// While Redis is away, pace waits, says so, and goes on.
func TestPaceWaitsForRedis(t *testing.T) {
	server, dir := redistest.Standalone(t), t.TempDir()
	server.Kill()
	text, stdin := input(t, dir, "w", 0, 50)
	p := startPace(t, dir, "w", stdin, "--name", "e2e", "--rate", "100/s", "--prefix", redistest.Prefix(t), "--redis",
		server.Addr())
	limittest.AwaitThat(t, "it tells of Redis", func() bool { return strings.Contains(p.said(), "cannot reach") })
	if out := read(t, p.out); out != "" {
		t.Errorf("%d bytes were released without Redis", len(out))
	}
	server.Restart()
	if code := p.wait(); code != exitOK || read(t, p.out) != text {
		t.Errorf("ended with %d, %d of %d bytes: %s", code, len(read(t, p.out)), len(text), p.said())
	}
}

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

// Three processes share one rate over four servers: every line comes out once,
// in order, and no sooner than the limit allows.
func TestPaceSharesARate(t *testing.T) {
	const lines = 20_000
	_, flags := started(t, 4)
	began := time.Now()
	pacers, texts, _ := three(t, lines, flags)
	for i, p := range pacers {
		p.released(texts[i])
	}
	if took, least := time.Since(began), (lines/5000-1)*time.Second; took < least {
		t.Errorf("%d lines took %s, which the limit allows in %s", lines, took, least)
	}
}

// three starts processes that share 5,000 lines a second, with a third of the lines each.
func three(t *testing.T, lines int, flags []string) (pacers []*pacer, texts []string, inputs []*os.File) {
	t.Helper()
	dir := t.TempDir()
	for i := range 3 {
		tag := strconv.Itoa(i)
		text, stdin := input(t, dir, tag, i*lines/3, (i+1)*lines/3)
		texts, inputs = append(texts, text), append(inputs, stdin)
		pacers = append(pacers, startPace(t, dir, tag, stdin, append([]string{"--name", "e2e", "--rate", "5000/s"},
			flags...)...))
	}
	return pacers, texts, inputs
}

// alone starts a process with so many lines, and returns them.
func alone(t *testing.T, lines int, rate string, flags ...string) (p *pacer, text string) {
	t.Helper()
	dir := t.TempDir()
	text, stdin := input(t, dir, "p", 0, lines)
	return startPace(t, dir, "p", stdin, append([]string{"--name", "e2e", "--rate", rate}, flags...)...), text
}

// A limit that is stored with another rate holds, and pace says so.
func TestPaceJoinsTheStoredLimit(t *testing.T) {
	_, flags := started(t, 1)
	walk(t, flags, []step{{"set e2e --rate 1000/s", exitOK, nil}})
	p, text := alone(t, 50, "1/h", flags...)
	if p.released(text); !strings.Contains(p.said(), "e2e is stored with 1000/s, sliding-log") {
		t.Errorf("standard error: %s", p.said())
	}
}

// The same command works on a cluster.
func TestPaceOnACluster(t *testing.T) {
	flags := []string{"--prefix", redistest.Prefix(t), "--cluster",
		strings.Join(redistest.NewCluster(t, 3, 0).Addrs(), ",")}
	p, text := alone(t, 300, "300/s", append(flags, "--shards", "6")...)
	p.released(text)
	walk(t, flags, []step{{"show e2e", exitOK, []string{"over 6 shards"}}})
}

// One of three is interrupted, which loses nothing; the others take up its part.
func TestPaceInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			_, flags := started(t, 4)
			pacers, texts, inputs := three(t, 18_000, flags)
			first := pacers[0]
			limittest.AwaitThat(t, "lines are released", func() bool { return read(t, first.out) != "" })
			if err := first.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := first.wait(); code != exitFailed {
				t.Errorf("the interrupted process ended with %d: %s", code, first.said())
			}
			checkNothingLost(t, first, texts[0], unread(t, inputs[0], texts[0]))
			for i, p := range pacers[1:] {
				p.released(texts[i+1])
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
	servers, flags := started(t, 1)
	servers[0].Kill()
	p, text := alone(t, 50, "100/s", flags...)
	limittest.AwaitThat(t, "it tells of Redis", func() bool { return strings.Contains(p.said(), "cannot reach") })
	if out := read(t, p.out); out != "" {
		t.Errorf("%d bytes were released without Redis", len(out))
	}
	servers[0].Restart()
	p.released(text)
}

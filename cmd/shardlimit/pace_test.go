package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// alone starts a process with so many lines, and returns them.
func alone(t *testing.T, lines int, rate string, flags ...string) (p *pacer, text string) {
	t.Helper()
	text, stdin := input(t, 0, lines)
	return startPace(t, stdin, rate, flags...), text
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

// The same command works on a cluster. A listing of limits does not wait for a master that is away.
func TestPaceOnACluster(t *testing.T) {
	cluster := redistest.NewCluster(t, 3, 0)
	flags := []string{"--prefix", redistest.Prefix(t), "--cluster", strings.Join(cluster.Addrs(), ",")}
	p, text := alone(t, 300, "300/s", append(flags, "--shards", "6")...)
	p.released(text)
	walk(t, flags, []step{{"show e2e", exitOK, []string{"over 6 shards"}}})
	cluster.Servers()[2].Kill()
	walk(t, flags, []step{{"show", exitFailed, []string{"cannot"}}})
}

// Three processes share one rate over four servers: every line comes out once, in order, and no
// sooner than the limit allows. One is interrupted, which loses nothing; the others take up its
// part.
func TestPaceIsSharedAndInterrupted(t *testing.T) {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			const each, perSecond = 6000, 5000
			_, flags := started(t, 4)
			began := time.Now()
			var pacers []*pacer
			var texts []string
			var inputs []*os.File
			for i := range 3 {
				text, stdin := input(t, i*each, (i+1)*each)
				texts, inputs = append(texts, text), append(inputs, stdin)
				pacers = append(pacers, startPace(t, stdin, fmt.Sprintf("%d/s", perSecond), flags...))
			}
			first := pacers[0]
			limittest.AwaitThat(t, "lines are released", func() bool { return read(t, first.out) != "" })
			limittest.Must(t, first.cmd.Process.Signal(sig))
			if code := first.wait(); code != exitFailed {
				t.Errorf("the interrupted process ended with %d: %s", code, first.said())
			}
			first.lostNothing(texts[0], inputs[0])
			for i, p := range pacers[1:] {
				p.released(texts[i+1])
			}
			if took, least := time.Since(began), (2*each/perSecond-1)*time.Second; took < least {
				t.Errorf("%d lines and more took %s, which the limit allows in %s", 2*each, took, least)
			}
		})
	}
}

// lostNothing checks an interrupted process: its output, its rest and what it has not read are its
// input, and it says so.
func (p *pacer) lostNothing(text string, in *os.File) {
	p.t.Helper()
	offset, err := in.Seek(0, io.SeekCurrent) // the process shares it
	limittest.Must(p.t, err)
	out, rest, said := read(p.t, p.out), read(p.t, p.rest), p.said()
	if out+rest+text[offset:] != text {
		p.t.Errorf("released %d + rest %d bytes + what is not read from %d on are not the input of %d", len(out),
			len(rest),
			offset, len(text))
	}
	if out == text || out == "" || !strings.HasSuffix(out, "\n") {
		p.t.Errorf("%d of %d bytes were released: the test shows nothing, or half a line came out", len(out), len(text))
	}
	next := fmt.Sprintf("line %d of the input, at byte %d: tail -c +%d", strings.Count(out, "\n")+1, len(out),
		len(out)+1)
	if rest != "" && !strings.Contains(said, p.rest) || !strings.Contains(said, next) {
		p.t.Errorf("standard error does not say %q, or where the rest is: %s", next, said)
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

package main

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"
)

// A narrow terminal shows long lines in several rows, and a wide one longer bars.
func TestTopFitsTheTerminal(t *testing.T) {
	k := look{name: "mails", state: exampleState(), who: exampleCrowd()}
	shown := func(width int) string {
		p := &page{live: true}
		return p.redraw(k.text(width), width, 50)
	}
	if got := shown(79); !strings.Contains(got, "all free in 912ms") {
		t.Errorf("at 80 columns the end is missing:\n%s", got)
	}
	for _, row := range strings.Split(shown(79), "\n") {
		row = strings.NewReplacer("\x1b[K", "", "\x1b[J", "", "\x1b[?25l", "").Replace(row)
		if n := utf8.RuneCountInString(row); n > 79 {
			t.Errorf("a row of %d columns: %s", n, row)
		}
	}
	if wide, narrow := strings.Count(shown(199), "█"), strings.Count(shown(79), "█"); wide < 2*narrow {
		t.Errorf("bars of %d at 80 columns, of %d at 200", narrow, wide)
	}
}

// An interrupt in the middle of a look ends it without a page of errors.
func TestTopEndsOnWhatItShowed(t *testing.T) {
	servers, flags := started(t, 1)
	walk(t, flags, []step{{"set mails --rate 10/h", exitOK, nil}})
	out := create(t, t.TempDir()+"/out")
	cmd := exec.Command(built, append([]string{"top", "mails", "--every", "10ms"}, flags...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = cleanEnv(), out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for range 1000 {
		if strings.Contains(read(t, out.Name()), "free 10") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	servers[0].Pause()
	time.Sleep(200 * time.Millisecond) // it is waiting for an answer now
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	servers[0].Resume()
	text := read(t, out.Name())
	for _, not := range []string{"does not answer", "cancel", "no shard", "interrupted", "not every"} {
		if strings.Contains(text, not) {
			t.Errorf("it ends with %q: %s", not, text[max(0, len(text)-500):])
		}
	}
}

// A reader that has enough ends it quietly.
func TestTopThroughHead(t *testing.T) {
	_, flags := started(t, 1)
	walk(t, flags, []step{{"set mails --rate 10/h", exitOK, nil}})
	args := append([]string{"-c", `"$@" | head -1`, "sh", built, "top", "mails", "--every", "10ms"}, flags...)
	var errs bytes.Buffer
	cmd := exec.Command("sh", args...)
	cmd.Env, cmd.Stderr = cleanEnv(), &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 || !strings.HasPrefix(string(out), "mails") {
		t.Errorf("%v: %s%s", err, out, errs.String())
	}
}

// A terminal shows each text in the place of the last one, cut to its size.
func TestRedraw(t *testing.T) {
	p := &page{live: true}
	if got, want := p.redraw("one\ntwo two\nthree\n", 5, 2), "\x1b[?25lone\x1b[K\ntwo …\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := p.redraw("█████████\n", 5, 9), "\x1b[2A\r████…\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := p.redraw("x\n", 5, 9); !strings.HasPrefix(got, "\x1b[1A") {
		t.Errorf("%q", got)
	}
}

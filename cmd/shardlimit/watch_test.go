package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A narrow terminal shows the beginning of long lines.
func TestShowFitsTheTerminal(t *testing.T) {
	k := look{name: "mails", state: exampleState(), who: exampleCrowd()}
	for _, row := range k.rows(&draw.Page{Terminal: true}) { // what is no terminal has the usual size
		if n := utf8.RuneCountInString(row); n > 79 {
			t.Errorf("a row of %d columns: %s", n, row)
		}
	}
}

// An interrupt in the middle of a look ends it without a page of errors.
func TestShowEndsOnWhatItShowed(t *testing.T) {
	servers, flags := started(t, 1)
	walk(t, flags, []step{{"set mails --rate 10/h", exitOK, nil}})
	proxy := redistest.NewProxy(t, servers[0].Addr())
	flags[len(flags)-1] = proxy.Addr()
	out := create(t, t.TempDir()+"/out")
	cmd := exec.Command(built, append([]string{"show", "mails", "--every", "10ms"}, flags...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = cleanEnv(), out, out
	limittest.Must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	shows := func() bool { return strings.Contains(read(t, out.Name()), "free 10") }
	limittest.AwaitThat(t, "it shows what is free", shows)
	proxy.DropReplies(true)
	limittest.AwaitThat(t, "it waits for an answer", func() bool { return proxy.Dropped() > 0 })
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	text := read(t, out.Name())
	for _, not := range []string{"does not answer", "cancel", "no shard", "interrupted", "not every"} {
		if strings.Contains(text, not) {
			t.Errorf("it ends with %q: %s", not, text[max(0, len(text)-500):])
		}
	}
}

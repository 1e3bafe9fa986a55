package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
)

// The demo keeps its promise when its output is no terminal.
func TestDemo(t *testing.T) {
	text, code := runHere(t, "demo", "--for", "2s", "--rate", "100/100ms", "--nodes", "2", "--workers", "3")
	if code != exitOK || !strings.Contains(text, "never over") || strings.Contains(text, "\x1b") ||
		!strings.Contains(text, "worker 3") {
		t.Errorf("ended with %d: %s", code, text)
	}
}

// show tells who contends, by the names it was given.
func TestShowsWhoContends(t *testing.T) {
	_, flags := started(t, 1)
	l, err := clientOf(t, flags).Limiter(t.Context(), "who",
		shardlimit.Limit{Permits: 100, Per: 24 * time.Hour, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	ann, stranger := l.As("ann", 2), l.As("stranger", 1)
	for _, n := range []int64{60, 60, 7, 7} { // the second is refused
		if _, err := ann.AllowN(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if _, err := stranger.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	walk(t, flags, []step{
		{"show who --participant ann", exitOK, []string{"\nann                      2           7 ",
			"\n" + shardlimit.ParticipantID("stranger") + "         1           1 "}},
		{"show who --json --participant ann", exitOK, []string{`"name": "ann"`, `"used": 7`,
			`"id": "` + shardlimit.ParticipantID("stranger")}},
		{"show who", exitOK, []string{"\n" + shardlimit.ParticipantID("ann") + "         2           7 "}},
	})
}

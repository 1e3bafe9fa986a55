package main

import (
	"strings"
	"testing"

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

// Calls are those of the participant that they name, with its weight, and show tells who contends,
// by the names it was given.
func TestShowsWhoContends(t *testing.T) {
	_, flags := started(t, 1)
	stranger := shardlimit.ParticipantID("stranger")
	walk(t, flags, []step{
		{"set who --rate 100/d --shards 1", exitOK, nil},
		{"allow who 60 --participant ann --weight 2.5", exitOK, nil},
		{"allow who 60 --participant ann --weight 2.5", exitFailed, nil},
		{"allow who 7 --participant ann --weight 2.5", exitOK, nil},
		{"allow who 7 --participant ann --weight 2.5", exitOK, nil},
		{"allow who --participant stranger", exitOK, nil},
		{"allow who --participant stranger", exitOK, nil},
		{"show who --participant ann", exitOK, []string{"\nann                    2.5           7 ",
			"\n" + stranger + "         1           1 "}},
		{"show who --json --participant ann", exitOK, []string{`"name": "ann"`, `"used": 7`, `"id": "` + stranger}},
		{"show who", exitOK, []string{"\n" + shardlimit.ParticipantID("ann") + "       2.5           7 "}},
	})
}

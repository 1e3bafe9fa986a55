package main

import (
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// The demo keeps its promise when its output is no terminal.
func TestDemo(t *testing.T) {
	text, code := runHere(t, "demo", "--for", "2s", "--rate", "100/100ms", "--nodes", "2", "--workers", "3")
	if code != exitOK || !strings.Contains(text, "never over") || strings.Contains(text, "\x1b") {
		t.Errorf("ended with %d: %s", code, text)
	}
}

// show, set, reset and delete on a stored limit.
func TestAdministration(t *testing.T) {
	flags := []string{"--prefix", redistest.Prefix(t), "--redis", redistest.Standalone(t).Addr()}
	for _, step := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"show", "adm"}, exitFailed, []string{`no limit "adm"`, "shardlimit set"}},
		{[]string{"reset", "adm"}, exitFailed, []string{`no limit "adm"`}},
		{[]string{"delete", "adm"}, exitFailed, []string{`no limit "adm"`}},
		{[]string{"set", "adm", "--shards", "2"}, exitFailed, []string{`no limit "adm"`}},
		{[]string{"set", "adm", "--rate", "10/m", "--shards", "2"}, exitOK,
			[]string{"adm: 10/m, sliding-log over 2 shards (new)"}},
		{[]string{"show", "adm"}, exitOK,
			[]string{"adm  10/m, sliding-log over 2 shards", "in use or reserved 0 of 10, free 10",
				"participants do not contend"}},
		{[]string{"set", "adm", "--rate", "20/m"}, exitOK,
			[]string{"20/m, sliding-log over 2 shards (before: 10/m, "}},
		{[]string{"show", "adm", "--json"}, exitOK,
			[]string{`"permits": 20`, `"per_us": 60000000`, `"remaining": 20`, `"shards": [`, `"participants": []`}},
		{[]string{"top", "adm", "--count", "2", "--every", "10ms"}, exitOK, []string{"free 20\n", "\n\nadm  20/m"}},
		{[]string{"top", "nobody"}, exitFailed, []string{`no limit "nobody"`}},
		{[]string{"reset", "adm"}, exitOK, []string{"forgotten"}},
		{[]string{"delete", "adm"}, exitOK, []string{"deleted"}},
		{[]string{"show", "adm"}, exitFailed, []string{`no limit "adm"`}},
	} {
		text, code := runHere(t, append(step.args, flags...)...)
		if code != step.code {
			t.Errorf("%v ended with %d, want %d: %s", step.args, code, step.code, text)
		}
		for _, s := range step.says {
			if !strings.Contains(text, s) {
				t.Errorf("%v does not say %q: %s", step.args, s, text)
			}
		}
	}
}

// show and top tell who contends, by the names they were given.
func TestShowsWhoContends(t *testing.T) {
	prefix, server := redistest.Prefix(t), redistest.Standalone(t)
	client, err := shardlimit.New(shardlimit.Config{
		KeyPrefix: prefix, Nodes: []shardlimit.Node{{Redis: server.ClientOption()}}, CallTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	l, err := client.Limiter(t.Context(), "who", shardlimit.Limit{Permits: 100, Per: 24 * time.Hour, Shards: 1})
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
	for args, says := range map[string][]string{
		"show who --participant ann": {"\nann                      2           7 ",
			"\n" + shardlimit.ParticipantID("stranger") + "         1           1 "},
		"top who --participant ann --count 1": {"\nann                      2           7 "},
		"show who --json --participant ann": {`"name": "ann"`, `"used": 7`,
			`"id": "` + shardlimit.ParticipantID("stranger")},
		"show who": {"\n" + shardlimit.ParticipantID("ann") + "         2           7 "},
	} {
		text, code := runHere(t, append(strings.Fields(args), "--prefix", prefix, "--redis", server.Addr())...)
		for _, s := range says {
			if code != exitOK || !strings.Contains(text, s) {
				t.Errorf("%s ended with %d and does not say %q:\n%s", args, code, s, text)
			}
		}
	}
}

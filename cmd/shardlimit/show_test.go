package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/cmd/shardlimit/internal/draw"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

func exampleState() shardlimit.State {
	return shardlimit.State{
		Limit: shardlimit.Limit{Permits: 3000, Per: time.Second, Shards: 3}, Epoch: 7, Used: 1250, Remaining: 250,
		Records: []string{"n2", "n3", "n4"}, RetryAfter: 1500 * time.Microsecond, ResetAfter: 912345 * time.Microsecond,
		Shards: []shardlimit.ShardState{
			{Tag: "a", Slot: 15495, Node: "10.0.0.1:6379", Target: 1000, Share: 1000, Used: 750, Free: 250},
			{Tag: "bc", Slot: 3, Node: "n2", Target: 1000, Share: 500, Used: 500, Algorithm: shardlimit.TokenBucket,
				Quarantine: 400 * time.Millisecond},
			{Tag: "d", Slot: 4, Node: "n3", Target: 1000, Err: errors.New("it is away")},
		},
	}
}

func exampleCrowd() crowd {
	return crowdOf([]shardlimit.ParticipantState{
		{ID: shardlimit.ParticipantID("ann"), Weight: 2, Used: 1000, Demand: 2499.6, Entitlement: 800},
		{ID: "00000000000000ff", Weight: 0.5, Used: 200, Demand: 200},
		{Weight: 1, Used: 50, Demand: 50, Entitlement: 16.7},
	}, []string{"ann", "nobody"})
}

func TestCrowd(t *testing.T) {
	var all []shardlimit.ParticipantState
	for i := range 25 {
		all = append(all, shardlimit.ParticipantState{ID: fmt.Sprintf("%016x", i), Used: int64(100 - i), Demand: 1})
	}
	c := crowdOf(all, nil)
	if len(c.Rows) != maxRows || c.Rows[19].Used != 81 || c.More != 5 {
		t.Errorf("%+v", c)
	}
	for want, c := range map[string]crowd{
		"\nparticipants do not contend\n":       crowdOf(nil, []string{"ann"}),
		"\nnot every shard told who contends\n": {Error: "a is away; too"},
	} {
		var b strings.Builder
		if c.print(&b); b.String() != want {
			t.Errorf("%q, want %q", b.String(), want)
		}
	}
	if got := (rowJSON{Name: "\x1b[2J"}).label(); got != `"\x1b[2J"` {
		t.Errorf("a name can reach the terminal: %s", got)
	}
}

// A limit is shown as it was always shown. A narrow terminal shows the beginning of long lines.
func TestPrintState(t *testing.T) {
	k := look{name: "mails", state: exampleState(), who: exampleCrowd()}
	got := k.text()
	want := `mails  3000/s, sliding-log over 3 shards (capacity is still moving)
in use or reserved 1,250 of 3,000, free 250
the next permit in 1.5ms
all free in 912ms
records are on n2, n3, n4

shard   slot  node                share        used        free
a      15495  10.0.0.1:6379       1,000         750         250  ███████▌
bc         3  n2                    500         500           0  ██████████ by token-bucket shut for 400ms: the node lost its memory
d          4  n3             does not answer

limiter "mails", shard {d} on node n3: it is away

participant         weight        used      wanted    entitled
ann                      2       1,000       2,500         800
00000000000000ff       0.5         200         200           -
newcomers                1          50          50          17

Redis knows only hashes of names; --participant NAME shows that one by its name
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, row := range k.rows(&draw.Page{Terminal: true}) { // what is no terminal has the usual size
		if n := utf8.RuneCountInString(row); n > 79 {
			t.Errorf("a row of %d columns: %s", n, row)
		}
	}
}

func TestPrintJSON(t *testing.T) {
	k := look{name: "mails", state: exampleState(), who: exampleCrowd()}
	text, err := json.Marshal(k.json())
	limittest.Must(t, err)
	for _, want := range []string{
		`{"name":"mails","kind":"limit","permits":3000,"per_us":1000000,"algorithm":"sliding_log",`,
		`"epoch":7,"settled":false,"used":1250,"remaining":250,"retry_after_us":1500,"reset_after_us":912345,`,
		`"records":["n2","n3","n4"],"shards":[{"tag":"a","slot":15495,"node":"10.0.0.1:6379",`,
		`"algorithm":"token_bucket","target":1000,"share":500,"used":500,"free":0,"quarantine_us":400000},`,
		`"node":"n3","algorithm":"sliding_log","target":1000,"share":0,"used":0,"free":0,"quarantine_us":0,` +
			`"error":"it is away"}],`,
		`"participants":[{"id":"` + shardlimit.ParticipantID("ann") +
			`","name":"ann","weight":2,"used":1000,"demand":2499.6,"entitlement":800},` +
			`{"id":"00000000000000ff","weight":0.5,`,
		`{"id":"","weight":1,"used":50,"demand":50,"entitlement":16.7}]}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
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

// An interrupt in the middle of a look ends it without a page of errors.
func TestShowEndsOnWhatItShowed(t *testing.T) {
	servers, flags := started(t, 1)
	walk(t, flags, []step{{"set mails --rate 10/h", exitOK, nil}})
	proxy := redistest.NewProxy(t, servers[0].Addr())
	flags[len(flags)-1] = proxy.Addr()
	out := create(t, t.TempDir()+"/out")
	cmd := tool(t, append([]string{"show", "mails", "--every", "10ms"}, flags...)...)
	cmd.Stdout, cmd.Stderr = out, out
	limittest.Must(t, cmd.Start())
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

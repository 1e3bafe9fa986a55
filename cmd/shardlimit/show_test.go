package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
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
}

func TestPrintJSON(t *testing.T) {
	k := look{name: "mails", state: exampleState(), who: exampleCrowd()}
	text, err := json.Marshal(k.json())
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"name": "mails", "permits": 3000.0, "per_us": 1e6, "algorithm": "sliding_log",
		"epoch":   7.0,
		"settled": false, "used": 1250.0, "remaining": 250.0, "retry_after_us": 1500.0, "reset_after_us": 912345.0} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if records, _ := got["records"].([]any); len(records) != 3 || records[0] != "n2" {
		t.Errorf("records %v", got["records"])
	}
	shards := got["shards"].([]any)
	second, third := shards[1].(map[string]any), shards[2].(map[string]any)
	if len(shards) != 3 || second["quarantine_us"] != 4e5 || second["share"] != 500.0 || second["target"] != 1000.0 ||
		third["error"] != "it is away" ||
		second["algorithm"] != "token_bucket" || third["algorithm"] != "sliding_log" {
		t.Errorf("shards %v", shards)
	}
	people := got["participants"].([]any)
	ann, stranger := people[0].(map[string]any), people[1].(map[string]any)
	if ann["name"] != "ann" || ann["id"] != shardlimit.ParticipantID("ann") || ann["used"] != 1000.0 ||
		ann["demand"] != 2499.6 ||
		ann["entitlement"] != 800.0 || stranger["name"] != nil || len(people) != 3 {
		t.Errorf("participants %v", people)
	}
	if _, there := second["error"]; there {
		t.Errorf("a shard that answered has an error: %v", second)
	}
}

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// step is a command line, and what it must come to. No output moves the cursor of a terminal.
type step struct {
	args string
	code int
	says []string
}

func walk(t *testing.T, flags []string, steps []step) {
	t.Helper()
	for _, s := range steps {
		args, rest, _ := strings.Cut(s.args, " -- ")
		all := append(strings.Fields(args), flags...)
		if rest != "" {
			all = append(append(all, "--"), strings.Fields(rest)...)
		}
		text, code := runHere(t, all...)
		if code != s.code {
			t.Errorf("%s ended with %d, want %d: %s", s.args, code, s.code, text)
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s writes escape sequences, and its output is no terminal: %q", s.args, text)
		}
		for _, says := range s.says {
			if !strings.Contains(text, says) {
				t.Errorf("%s does not say %q: %s", s.args, says, text)
			}
		}
	}
}

// started is servers, and the flags that name them and a prefix of the test.
func started(t *testing.T, n int) (servers []*redistest.Server, flags []string) {
	t.Helper()
	servers = redistest.Servers(t, n)
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return servers, []string{"--prefix", redistest.Prefix(t), "--redis", strings.Join(all, ",")}
}

func clientOf(t *testing.T, flags []string) *shardlimit.Client {
	t.Helper()
	nodes, err := shardlimit.ParseNodes(flags[3])
	limittest.Must(t, err)
	return limittest.Fleet{Nodes: nodes, Prefix: flags[1]}.Client(t)
}

// The demo keeps its promise when its output is no terminal.
func TestDemo(t *testing.T) {
	walk(t, nil, []step{{"demo --for 2s --rate 100/100ms --nodes 2 --workers 3", exitOK,
		[]string{"never over", "worker 3"}}})
}

func TestListAllowAndSet(t *testing.T) {
	_, flags := started(t, 2)
	none := []string{`no limit "mails"`}
	limittest.Family(t, clientOf(t, flags), "users", shardlimit.PerMinute(2))
	walk(t, flags, []step{
		{"allow mails", exitFailed, []string{`no limit "mails" is stored there`, "shardlimit set"}},
		{"show mails", exitFailed, none},
		{"set mails --shards 2", exitFailed, none},
		{"set mails --rate 3/h --shards 1", exitOK, []string{"mails: 3/h, sliding-log over 1 shard (new)"}},
		{"show mails", exitOK, []string{"participants do not contend"}},
		{"show mails --json", exitOK, []string{`"permits": 3`, `"per_us": 3600000000`, `"remaining": 3`, `"shards": [`,
			`"participants": []`}},
		{"allow mails", exitOK, []string{"mails: allowed 1 permit, 2 of 3 left"}},
		{"allow mails 2 --json", exitOK,
			[]string{`{"name":"mails","allowed":true,"granted":2,"limit":3,"remaining":0,`}},
		{"allow mails", exitFailed, []string{"mails: denied 1 permit (full), 0 of 3 left; try again in 1h"}},
		{"allow mails --json", exitFailed, []string{`"allowed":false`, `"retry_after_us":`}},
		{"allow mails 4", exitFailed, []string{"more permits than the limit has: 4 asked for"}},
		{"allow users", exitFailed, []string{`no limit "users" is stored there, or with --key`}},
		{"allow mails --key ann", exitFailed, []string{`no family "mails"`}},
		{"allow users 2 --key ann", exitOK, []string{"users/ann: allowed 2 permits, 0 of 2 left"}},
		{"delete users", exitFailed, []string{`no limit "users"`}},
		{"set small --rate 799/m", exitOK, []string{"over 1 shard (new)"}},
		{"set small --rate 700/m", exitOK, []string{"small: 700/m, sliding-log over 1 shard (before: "}},
		{"set small --shards 0", exitOK, []string{"small: 700/m, sliding-log over 2 shards (before: "}},
		{"delete small", exitOK, []string{"small: deleted"}},
		{"show small", exitFailed, []string{`no limit "small"`}},
		{"set jobs --rate 10/s --algorithm token-bucket --burst 50 --revision 3", exitOK,
			[]string{"jobs: 10/s, token-bucket", ", burst 50, revision 3 (new)"}},
		{"set jobs --lease 10ms", exitUsage, []string{"Lease needs SlidingLog"}},
		{"set jobs --algorithm sliding_log --lease 10ms", exitOK,
			[]string{"jobs: 10/s, sliding-log", ", lease 10ms, "}},
		{"set jobs --lease 0s --revision 2", exitOK, []string{", revision 3 (before: 10/s, "}},
		{"set jobs --rate 9/s --node-timeout 5s", exitUsage, []string{"jobs is there already; --node-timeout is for"}},
		{"set users --family --algorithm fixed-window", exitOK, []string{"users: 2/m, fixed-window"}},
		{"set watched --rate 1/h --mode shadow", exitOK, nil},
		{"allow watched --json", exitOK, []string{`"shadowed":false`}},
		{"allow watched --json", exitOK, []string{`"allowed":true`, `"shadowed":true}`}},
		{"delete watched", exitOK, nil},
		{"set jobs --mode closed", exitOK, []string{"jobs: 10/s, sliding-log over 1 shard, closed, revision 3"}},
		{"allow jobs", exitFailed, []string{"jobs: denied 1 permit (closed)"}},
		{"set jobs --rate 1/32d", exitUsage, []string{"31 days"}},
		{"set users --family --mode off", exitOK, []string{"users: 2/m, fixed-window over 1 shard, off"}},
		{"set users --family --mode enforced", exitOK, nil},
		{"show", exitOK, []string{"jobs   limit   10/s, sliding-log", "mails  limit   3/h, sliding-log over 1 shard",
			"users  family  for each key: 2/m, fixed-window"}},
		{"show --json", exitOK, []string{`{"name":"jobs","kind":"limit","permits":10,"per_us":1000000,`,
			"\n" + `{"name":"mails","kind":"limit",`, "\n" + `{"name":"users","kind":"family",`}},
		{"reset mails", exitOK, []string{"mails: usage forgotten"}},
		{"show mails", exitOK, []string{"mails  3/h, sliding-log over 1 shard", "in use or reserved 0 of 3, free 3"}},
	})
}

// run waits for its permits, and then the command is what runs, with its exit code and signals.
func TestRun(t *testing.T) {
	_, flags := started(t, 1)
	walk(t, flags, []step{
		{"set once --rate 2/h", exitOK, nil},
		{"run nobody -- true", exitFailed, []string{`no limit "nobody"`}},
	})
	for script, want := range map[string]string{"cat; echo $0 $1; exit 7": "input\na -b\nexit status 7",
		"kill -TERM $$": "signal: terminated"} {
		cmd := tool(t, slices.Concat([]string{"run", "once"}, flags, []string{"--", "sh", "-c", script, "a", "-b"})...)
		cmd.Stdin = strings.NewReader("input\n")
		out, err := cmd.CombinedOutput()
		if got := fmt.Sprintf("%s%v", out, err); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	walk(t, append(flags, "--timeout", "1ms"), []step{{"run once -- touch " + filepath.Join(t.TempDir(), "x"),
		exitFailed, []string{"has not 1 permit free within 1ms", "the command was not run"}}})
}

// A limit moves to a node that was added, and away from one that is drained.
func TestRebalanceAndDrain(t *testing.T) {
	servers, flags := started(t, 3)
	few := append([]string{}, flags...)
	few[3] = servers[0].Addr() + "," + servers[1].Addr()
	client := clientOf(t, few)
	l := limittest.Limiter(t, client, "mails", shardlimit.Limit{Permits: 60, Per: 100 * time.Millisecond, Shards: 6})
	limittest.Must(t, limittest.Err(l.AllowN(t.Context(), 40))) // they must leave the window before all has moved
	limittest.Family(t, client, "users", shardlimit.Limit{Permits: 2, Per: time.Minute,
		Algorithm: shardlimit.FixedWindow})
	on := func(i, want int) { // of the six shards
		t.Helper()
		text, _ := runHere(t, append([]string{"show", "mails", "--json"}, flags...)...)
		n := strings.Count(text, `"node": "`+servers[i].Addr()+`"`)
		if n != want || !strings.Contains(text, `"settled": true`) {
			t.Errorf("node %d has %d shards, want %d: %s", i, n, want, text)
		}
	}
	walk(t, flags, []step{
		{"rebalance", exitOK, []string{"users: its keys are placed over the nodes",
			"mails: 60/100ms, sliding-log over 6 shards, all where it should be"}},
	})
	on(2, 2)
	limittest.Must(t, limittest.Err(l.AllowN(t.Context(), 40)))
	walk(t, flags, []step{{"rebalance --drain " + servers[0].Addr(), exitOK,
		[]string{servers[0].Addr() + ": no limit is on it any more; keys of families may need it for 4m16s " +
			"more; then take it out of every list\n"}}})
	on(0, 0)
	walk(t, flags, []step{{"rebalance", exitOK, nil}})
	on(0, 2)
}

// A change of something else leaves the number of shards as free as it was.
func TestSetLeavesTheNumberOfShardsToBeChosen(t *testing.T) {
	servers, flags := started(t, 2)
	one := append([]string{}, flags...)
	one[3] = servers[0].Addr()
	walk(t, one, []step{
		{"set changed --rate 2000/s", exitOK, []string{"changed: 2000/s, sliding-log over 1 shard (new)"}},
		{"set changed --rate 2100/s", exitOK, []string{"changed: 2100/s, sliding-log over 1 shard (before: "}},
		{"set fixed --rate 2000/s --shards 1", exitOK, nil},
		{"set fixed --rate 2100/s", exitOK, nil},
		{"set freed --rate 2000/s --shards 1", exitOK, nil},
		{"set freed --shards 0", exitOK, nil},
	})
	walk(t, flags, []step{
		{"rebalance", exitOK, []string{"changed: 2100/s, sliding-log over 2 shards",
			"fixed: 2100/s, sliding-log over 1 shard", "freed: 2000/s, sliding-log over 2 shards"}},
	})
}

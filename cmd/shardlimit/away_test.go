package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// interruptedChange is a limit whose only shard is on a server that died in the middle of a change,
// and is back. It tells what set said.
func interruptedChange(t *testing.T, servers []*redistest.Server, flags []string) (name, said string) {
	t.Helper()
	var names []string
	for i := range 40 { // some of these limits lie on the server that keeps no record
		name := fmt.Sprintf("l%d", i)
		walk(t, flags, []step{{"set " + name + " --rate 10/s --shards 1", exitOK, nil}})
		if nodeOf(t, flags, name) == servers[1].Addr() {
			names = append(names, name)
		}
	}
	servers[1].Kill()
	defer servers[1].Restart()
	for _, name := range names {
		text, code := runHere(t,
			append([]string{"set", name, "--algorithm", "fixed-window", "--shards", "2"}, flags...)...)
		if code != exitFailed {
			t.Errorf("set ended with %d: %s", code, text)
		}
		if !strings.Contains(text, "nothing changed") && !strings.Contains(text, "no shard answered") &&
			!strings.HasPrefix(text, "shardlimit: cannot reach") {
			return name, text
		}
	}
	t.Fatal("every shard is where the records are")
	return "", ""
}

// keeperFirst returns two servers, first the one that keeps the records.
func keeperFirst(t *testing.T, servers []*redistest.Server) []*redistest.Server {
	t.Helper()
	client := servers[1].Client(t)
	found, err := client.Do(t.Context(), client.B().Keys().Pattern("*:m:*:limit:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return []*redistest.Server{servers[1], servers[0]}
	}
	return servers
}

// nodeOf is where the first shard of a limit is.
func nodeOf(t *testing.T, flags []string, name string) string {
	t.Helper()
	text, _ := runHere(t, append([]string{"show", name, "--json"}, flags...)...)
	var state stateJSON
	if err := json.Unmarshal([]byte(text), &state); err != nil || len(state.Shards) == 0 {
		t.Fatalf("%v: %s", err, text)
	}
	return state.Shards[0].Node
}

// Whoever asks once sees to it that a change that was begun and left is finished.
func TestAllowFinishesAChangeThatWasInterrupted(t *testing.T) {
	servers, flags := started(t, 2)
	walk(t, flags, []step{{"set first --rate 10/s", exitOK, nil}})
	servers = keeperFirst(t, servers)
	name, said := interruptedChange(t, servers, flags)
	for _, says := range []string{": stored; ", "not adopted it", "shardlimit rebalance " + name,
		"cannot reach " + servers[1].Addr()} {
		if !strings.Contains(said, says) {
			t.Errorf("set does not say %q: %s", says, said)
		}
	}
	text, code := runHere(t, append([]string{"allow", name}, flags...)...)
	for began := time.Now(); strings.Contains(text, "0 of 10 left") && time.Since(began) < time.Minute; {
		text, code = runHere(t, append([]string{"allow", name}, flags...)...) // until its window of a second ends
	}
	if code != exitOK || !strings.Contains(text, name+": allowed 1 permit") {
		t.Errorf("allow ended with %d: %s", code, text)
	}
}

// In an outage every command says which server cannot be reached, once, before anything else.
func TestCommandsWhileAServerIsAway(t *testing.T) {
	servers, flags := started(t, 2)
	walk(t, flags, []step{{"set split --rate 10/h --shards 2", exitOK, nil}, {"set one --rate 5/h", exitOK, nil}})
	servers = keeperFirst(t, servers)
	reached := "cannot reach " + servers[1].Addr()
	servers[1].Kill()
	for _, args := range []string{"show split", "top split --count 1", "reset split", "rebalance split", "show",
		"set split --rate 20/h"} {
		text, code := runHere(t, append(strings.Fields(args), flags...)...)
		if n := strings.Count(text, reached); n != 1 && !strings.Contains(text, "nothing changed: "+servers[1].Addr()) {
			t.Errorf("%s says %d times whom it cannot reach: %s", args, n, text)
		}
		if strings.Contains(text, "breaker") || strings.Contains(text, "shardlimit: shardlimit:") {
			t.Errorf("%s tells of the inside of the library: %s", args, text)
		}
		if want := exitFailed; code != want && !strings.HasPrefix(args, "top") {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
		if strings.Contains(text, "all where it should be") {
			t.Errorf("%s claims what nobody saw: %s", args, text)
		}
		if args == "show" && !strings.Contains(text, "split  limit") && !strings.Contains(text, "one    limit") {
			t.Errorf("show does not list what is to be read: %s", text)
		}
	}
}

// A change of a limit whose record cannot be reached says that nothing was changed, and why.
func TestSetWithoutTheRecord(t *testing.T) {
	servers, flags := started(t, 1)
	walk(t, flags, []step{{"set mails --rate 10/h", exitOK, nil}})
	servers[0].Kill()
	walk(t, flags, []step{{"set mails --rate 20/h", exitFailed,
		[]string{"nothing changed: " + servers[0].Addr() + ", which keeps the record, does not answer"}}})
}

// One name is not that of a limit and of a family.
func TestOneNameForOneThing(t *testing.T) {
	_, flags := started(t, 1)
	client := clientOf(t, flags)
	users := append([]string{"pace", "--name", "users", "--rate", "5/s"}, flags...)
	if _, err := client.Family(t.Context(), "users", shardlimit.PerMinute(2)); err != nil {
		t.Fatal(err)
	}
	if text, code := runHere(t, users...); code != exitUsage || !strings.Contains(text, `"users" is a family`) {
		t.Errorf("pace ended with %d: %s", code, text)
	}
	walk(t, flags, []step{
		{"show users", exitUsage, nil}, // nothing was made
		{"set mails --rate 5/h", exitOK, nil},
		{"set mails --family --rate 6/h", exitUsage, []string{`"mails" is a limit`, "leave --family out"}},
		{"allow mails --key ann", exitUsage, []string{`"mails" is a limit`, "leave --key out"}},
	})
	if _, err := client.Family(t.Context(), "mails", shardlimit.PerMinute(2)); err != nil {
		t.Fatal(err)
	}
	walk(t, flags, []step{
		{"allow mails", exitUsage, []string{`"mails" is a limit and a family`, "shardlimit delete mails"}},
		{"allow mails --key ann", exitUsage, []string{`"mails" is a limit and a family`}},
	})
	// not in this process, which the command would replace
	text, code := shardlimitRun(t, append(append([]string{"run", "mails"}, flags...), "--", "true")...)
	if code != exitUsage || !strings.Contains(text, `"mails" is a limit and a family`) {
		t.Errorf("run ended with %d: %s", code, text)
	}
}

// What is said of a name cannot steer a terminal.
func TestNamesReachNoTerminal(t *testing.T) {
	_, flags := started(t, 1)
	name := "a\x1b[2Jb"
	for _, args := range [][]string{{"set", name, "--rate", "100/s"}, {"reset", name},
		{"pace", "--name", name, "--rate", "50/s"}, {"delete", name}} {
		text, code := runHere(t, append(args, flags...)...)
		if code != exitOK || strings.Contains(text, "\x1b") || !strings.Contains(text, `"a\x1b[2Jb"`) {
			t.Errorf("%s ended with %d: %q", args[0], code, text)
		}
	}
}

func TestWhatDecisionsAndCommandsSay(t *testing.T) {
	_, flags := started(t, 1)
	walk(t, flags, []step{
		{"set jobs --rate 10/s --shards 2 --mode closed", exitOK, nil},
		{"allow jobs", exitFailed, []string{"jobs: denied 1 permit: the limit is closed; shardlimit set jobs --mode "}},
		{"set jobs --mode enforced --algorithm sliding_counter", exitOK, nil},
		{"pace --name jobs --rate 10/s --shards 5", exitOK,
			[]string{"jobs has 2 shards, and not 5; shardlimit set changes it"}},
		{"set jobs --rate 1/32d", exitUsage, []string{"31 days"}},
	})
	if text, _ := runHere(t, append([]string{"set", "jobs", "--rate", "1/32d"}, flags...)...); strings.Contains(text,
		"744h") {
		t.Errorf("it counts hours: %s", text)
	}
}

package main

import (
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

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

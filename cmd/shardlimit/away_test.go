package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// In an outage every command says which server cannot be reached, once, before anything else. run
// tells of it, and the command runs all the same.
func TestCommandsWhileAServerIsAway(t *testing.T) {
	servers, flags := started(t, 2)
	walk(t, flags, []step{{"set split --rate 10/h --shards 2", exitOK, nil}, {"set one --rate 5/h", exitOK, nil}})
	if servers[1].Do(t, "KEYS", "*:m:*:limit:*") != "[]" { // that of the records is to be the first
		slices.Reverse(servers)
	}
	reached := "cannot reach " + servers[1].Addr()
	servers[1].Kill()
	for _, args := range []string{"show split", "reset split", "rebalance", "show", "set split --rate 20/h"} {
		text, code := runHere(t, append(strings.Fields(args), flags...)...)
		if n := strings.Count(text, reached); n != 1 {
			t.Errorf("%s says %d times whom it cannot reach: %s", args, n, text)
		}
		if strings.Contains(text, "breaker") || strings.Contains(text, "shardlimit: shardlimit:") {
			t.Errorf("%s tells of the inside of the library: %s", args, text)
		}
		if code != exitFailed {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
		if strings.Contains(text, "all where it should be") {
			t.Errorf("%s claims what nobody saw: %s", args, text)
		}
		if args == "show" && !strings.Contains(text, "split  limit") && !strings.Contains(text, "one    limit") {
			t.Errorf("show does not list what is to be read: %s", text)
		}
	}
	run := append(append([]string{"run", "split"}, flags...), "--", "echo", "done")
	text, err := tool(t, run...).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "node="+servers[1].Addr()) ||
		!bytes.HasSuffix(text, []byte("done\n")) {
		t.Errorf("run: %v: %s", err, text)
	}
	servers[0].Kill() // which has the record
	walk(t, flags, []step{{"set split --rate 20/h", exitFailed, []string{"cannot reach " + servers[0].Addr()}}})
}

// What is said of a name cannot steer a terminal.
func TestNamesReachNoTerminal(t *testing.T) {
	_, flags := started(t, 1)
	for _, args := range []string{"set % --rate 100/s", "reset %", "pace --name % --rate 50/s", "delete %"} {
		walk(t, flags, []step{{strings.ReplaceAll(args, "%", "a\x1b[2Jb"), exitOK, []string{`"a\x1b[2Jb"`}}})
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong command line ends with 2 and says what to do; nothing is connected to.
func TestUsage(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "taken")
	if err := os.WriteFile(taken, []byte("lines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := []string{"--redis", "127.0.0.1:1"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "USAGE"},
		{[]string{"tops"}, `no command "tops"`},
		{append([]string{"top"}, redis...), "needs the NAME"},
		{append([]string{"top", "a", "--every", "1ms"}, redis...), "--every is 1ms"},
		{append([]string{"top", "a", "--count", "-1"}, redis...), "--count is -1"},
		{[]string{"top", "a"}, "say where Redis is"},
		{append([]string{"serve"}, redis...), "nothing to serve"},
		{append([]string{"serve", "--grpc", ":0"}, redis...), "need each other"},
		{append([]string{"serve", "--config", taken}, redis...), "need each other"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken}, redis...),
			taken + ":1: the file is not a mapping"},
		{append([]string{"serve", "--grpc", ":0", "--config", "/no/such/file"}, redis...), "no such file"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken, "--algorithm", "x"}, redis...), "--algorithm is"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken, "--charge", "x"}, redis...), "--charge is"},
		{append([]string{"serve", "mails"}, redis...), `got "mails"`},
		{append([]string{"serve", "--limit", "mails"}, redis...), "is not NAME=RATE"},
		{append([]string{"serve", "--per-key", "mails=5"}, redis...), "no slash"},
		{append([]string{"serve", "--limits", "/no/such/file"}, redis...), "no such file"},
		{append([]string{"serve", "--limits", taken}, redis...), "invalid character"},
		{append([]string{"serve", "--limit", "a=1/s", "--on-outage", "panic"}, redis...), "--on-outage"},
		{append([]string{"serve", "--limit", "a=1/s", "--call-timeout", "1us"}, redis...), "CallTimeout"},
		{[]string{"serve", "--limit", "a=1/s"}, "say where Redis is"},
		{[]string{"serve", "--limit", "a=1/s", "--embedded", "--redis", "a:1"}, "--embedded needs no other server"},
		{[]string{"serve", "--limit", "a=1/s", "--limit", "a=2/s", "--embedded"}, "used twice"},
		{[]string{"serve", "--limit", "a=1/1us", "--embedded"}, "Per is 1"},
		{[]string{"pace"}, "--name"},
		{[]string{"pace", "--name", "n"}, "--rate 500/s"},
		{[]string{"pace", "--name", "n", "--rate", "5"}, "no slash"},
		{[]string{"pace", "--name", "n", "--rate", "5/fortnight"}, "not a time"},
		{[]string{"pace", "--name", "n", "--rate", "5/s"}, "say where Redis is"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--redis", "a:1"},
			"--embedded needs no other server"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "file"}, `got "file"`},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--rest", taken}, "exists already"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--rest", taken + "/x"}, "not a directory"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--rest",
			filepath.Join(filepath.Dir(taken), "no", "x")}, "no such file"},
		{[]string{"pace", "--name", "n", "--rate", "5/1us", "--embedded"}, "Per is 1"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--shards", "1000"}, "Shards is 1000"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--shards", "many"}, "many"},
		{[]string{"pace", "--name", strings.Repeat("n", 600), "--rate", "5/s", "--embedded"}, "name"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--redis", "a:1,a:1"}, "taken by an earlier node"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--redis", "a:1", "--prefix", "{x}"}, "braces"},
		{[]string{"pace", "--speed", "5"}, "speed"},
		{[]string{"pace", "--name", "n", "--rate", "5/s", "--embedded", "--weight", "0"}, "--weight is 0"},
		{[]string{"serve", "--limit", "a=1/s", "--embedded", "--weight", "-2"}, "Weight is -2"},
		{[]string{"serve", "--limit", "a=1/s", "--redis", "a:1", "--participant", strings.Repeat("n", 600)},
			"Participant has 600"},
		{append([]string{"show"}, redis...), "needs the NAME"},
		{append([]string{"show", "a", "b"}, redis...), `"b"`},
		{[]string{"show", "a"}, "say where Redis is"},
		{append([]string{"set", "a"}, redis...), "nothing to set"},
		{append([]string{"set", "a", "5/s"}, redis...), `got "5/s"`},
		{append([]string{"set", "a", "5/s", "--rate", "x"}, redis...), `got "5/s"`},
		{append([]string{"reset", "a", "b"}, redis...), `got "b"`},
		{append([]string{"delete", "a", "b"}, redis...), `got "b"`},
		{append([]string{"top", "a", "b", "--every", "1ms"}, redis...), `got "b"`},
		{[]string{"pace", "n", "--rate", "5/s"}, `got "n"`},
		{[]string{"demo", "", "--nodes", "0"}, `got ""`},
		{append([]string{"set", "a", "--rate", "x"}, redis...), "no slash"},
		{append([]string{"reset"}, redis...), "needs the NAME"},
		{append([]string{"delete"}, redis...), "needs the NAME"},
		{[]string{"version", "now"}, `"now"`},
		{[]string{"demo", "--nodes", "0"}, "--nodes is 0"},
		{[]string{"demo", "--nodes", "1000"}, "--nodes is 1000"},
		{[]string{"demo", "--workers", "0"}, "--workers is 0"},
		{[]string{"demo", "--for", "-1s"}, "--for is -1s"},
		{[]string{"demo", "--for", "soon"}, "soon"},
		{[]string{"demo", "--rate", "0/s"}, "at least 1"},
		{[]string{"demo", "--shards", "-1"}, "Shards is -1"},
		{[]string{"demo", "please"}, `"please"`},
	} {
		text, code := shardlimitRun(t, c.args...)
		if code != exitUsage || !strings.Contains(text, c.says) {
			t.Errorf("%v ended with %d, want %d, and %q in: %s", c.args, code, exitUsage, c.says, text)
		}
		if len(c.args) > 0 && strings.Count(text, "\n") != 1 {
			t.Errorf("%v: want one line that says what is wrong, got: %s", c.args, text)
		}
		if strings.HasPrefix(text, "shardlimit: shardlimit:") {
			t.Errorf("%v: it says twice who speaks: %s", c.args, text)
		}
	}
	if got := read(t, taken); got != "lines\n" {
		t.Errorf("the file that existed was changed to %q", got)
	}
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"demo", "pace", "serve", "show", "top", "set", "reset", "delete", "version"} {
		text, code := shardlimitRun(t, command, "--help")
		if code != exitOK || !strings.Contains(text, "Example") || !strings.Contains(text, "  shardlimit "+command) {
			t.Errorf("%s --help ended with %d: %s", command, code, text)
		}
	}
	text, code := shardlimitRun(t, "--help")
	if code != exitOK || !strings.Contains(text, "pace") || !strings.Contains(text, "demo") {
		t.Errorf("--help ended with %d: %s", code, text)
	}
	if text, code = shardlimitRun(t, "version"); code != exitOK || !strings.HasPrefix(text, "shardlimit ") {
		t.Errorf("version ended with %d: %s", code, text)
	}
}

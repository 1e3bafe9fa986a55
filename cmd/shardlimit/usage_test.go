package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
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
		{[]string{"tops"}, `no command "tops"; did you mean top?`},
		{[]string{"shwo", "x", "--redis", "a:1"}, `no command "shwo"; did you mean show?`},
		{[]string{"--json", "frobnicate"}, "flag provided but not defined: -json"},
		{[]string{"show", "a", "--redis", "a:1,http://b:2"}, "--redis: a URL cannot be read"},
		{[]string{"--redis", "a:1", "show", "mails"}, "not defined: -redis; flags come after the command; see"},
		{[]string{"--vresion"}, "not defined: -vresion; flags come after the command"},
		{append([]string{"show", "a", "--jsno"}, redis...),
			"shardlimit: flag provided but not defined: -jsno; see shardlimit show --help"},
		{[]string{"set", "a", "--rate"}, "flag needs an argument: --rate"},
		{append([]string{"set", "a", "--shards", "many"}, redis...), `--shards: "many" is not a whole number`},
		{append([]string{"allow", "a", "--weight", "much"}, redis...), `invalid value "much" for flag -weight`},
		{append([]string{"top", "a", "--every", "5"}, redis...), `invalid value "5" for flag -every`},
		{append([]string{"show", "a", "--json=perhaps"}, redis...), "for flag -json"},
		{append([]string{"set", "a", "--algorithm", "tokenbucket"}, redis...), "is none of"},
		{append([]string{"set", "a", "--algorithm", "mine"}, redis...), "fixed-window, leaky-bucket, sliding-"},
		{append([]string{"set", "a", "--mode", "shadows"}, redis...), "is none of"},
		{append([]string{"set", "a", "--family", "--rate", "1/s", "--shards", "2"}, redis...), "cannot be changed"},
		{[]string{"completion"}, "needs the name of a shell"},
		{[]string{"completion", "bash", "now"}, `got "now"`},
		{[]string{"show"}, "say where Redis is"},
		{append([]string{"allow"}, redis...), "needs the NAME"},
		{append([]string{"allow", "a", "none"}, redis...), `N is "none"; it must be a whole number of permits`},
		{append([]string{"allow", "a", "1", "2"}, redis...), "takes NAME [N], but also got \"2\""},
		{[]string{"allow", "a"}, "say where Redis is"},
		{append([]string{"run"}, redis...), "needs the NAME of a limit and a command"},
		{append([]string{"run", "a"}, redis...), "needs the NAME of a limit and a command"},
		{append([]string{"run", "a"}, append(redis, "--", "/no/such/command")...), `no command "/no/such/command"`},
		{append([]string{"rebalance", "--family", "--all"}, redis...), "--family needs the NAME"},
		{append([]string{"show", "--participant", "ann"}, redis...), "--participant needs the NAME"},
		{append([]string{"rebalance"}, redis...), "needs one of the NAME"},
		{append([]string{"rebalance", "a", "--all"}, redis...), "needs one of the NAME"},
		{append([]string{"rebalance", "--all", "--drain", "127.0.0.1:1"}, redis...), "needs one of the NAME"},
		{append([]string{"rebalance", "a", "--drain", "127.0.0.1:1"}, redis...), "needs one of the NAME"},
		{append([]string{"rebalance", "--drain", "127.0.0.1:1"}, redis...), "lists one node only"},
		{[]string{"rebalance", "--drain", "127.0.0.1:3", "--redis", "127.0.0.1:1,n2=127.0.0.1:2"},
			`"127.0.0.1:3" is none of the nodes; they are 127.0.0.1:1, n2`},
		{append([]string{"top"}, redis...), "needs the NAME"},
		{append([]string{"top", "a", "--every", "1ms"}, redis...), "at least 10ms"},
		{[]string{"top", "a"}, "say where Redis is"},
		{append([]string{"serve"}, redis...), "nothing to serve"},
		{append([]string{"serve", "--grpc", ":0"}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--config", taken}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken}, redis...),
			taken + ":1: the file is not a mapping"},
		{append([]string{"serve", "--grpc", ":0", "--config", "/no/such/file"}, redis...), "no such file"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken, "--algorithm", "x"}, redis...), "--algorithm: "},
		{append([]string{"serve", "--grpc", ":0", "--config", taken, "--charge", "x"}, redis...), "--charge: "},
		{append([]string{"serve", "--limit", "a=1/h", "--shadow"}, redis...),
			"needs both of --grpc"},
		{append([]string{"serve", "--limit", "a=1/h", "--charge", "each"}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--limit", "a=1/h", "--response-headers"}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--limit", "a=1/h", "--merge-domains"}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--grpc", ":0", "--config", taken, "--algorithm", "leaky-bucket"}, redis...),
			"--algorithm: "},
		{append([]string{"serve", "--limit", "a=1/h", "--algorithm", "fixed-window"}, redis...), "needs both of --grpc"},
		{append([]string{"serve", "--limit", "a=1/h", "--listen", "8080"}, redis...), `--listen is "8080"`},
		{append([]string{"serve", "--limit", "a=1/h", "--listen", ":"}, redis...), `--listen is ":"`},
		{append([]string{"serve", "mails"}, redis...), `got "mails"`},
		{append([]string{"serve", "--limit", "mails"}, redis...), "is not NAME=RATE"},
		{append([]string{"serve", "--per-key", "mails=5"}, redis...), "no slash"},
		{append([]string{"serve", "--limit", "a=1/s", "--on-outage", "panic"}, redis...), "--on-outage"},
		{append([]string{"serve", "--limit", "a=1/s", "--call-timeout", "1us"}, redis...), "CallTimeout"},
		{[]string{"serve", "--limit", "a=1/s"}, "say where Redis is"},
		{[]string{"serve", "--limit", "a=1/s", "--embedded", "--redis", "a:1"}, "--embedded needs no other server"},
		{[]string{"serve", "--limit", "a=1/s", "--limit", "a=2/s", "--embedded"}, "used twice"},
		{[]string{"serve", "--limit", "a=1/1us", "--embedded"}, "Per is 1"},
		{[]string{"pace"}, "--name"},
		{[]string{"pace", "--name", "n"}, "--rate: rate \"\" has no slash; write it as NUMBER/TIME, for example 500/s"},
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
		{append([]string{"show", "--family"}, redis...), "needs the NAME"},
		{append([]string{"show", "a", "b"}, redis...), `"b"`},
		{[]string{"show", "a"}, "say where Redis is"},
		{append([]string{"set", "a"}, redis...), "nothing to set"},
		{append([]string{"set", "a", "5/s"}, redis...), `got "5/s"`},
		{append([]string{"set", "a", "5/s", "--rate", "x"}, redis...), `got "5/s"`},
		{append([]string{"reset", "a", "b"}, redis...), `got "b"`},
		{append([]string{"delete", "a", "b"}, redis...), `got "b"`},
		{append([]string{"top", "a", "b", "--every", "1s"}, redis...), `got "b"`},
		{[]string{"pace", "n", "--rate", "5/s"}, `got "n"`},
		{[]string{"demo", "", "--nodes", "0"}, `got ""`},
		{append([]string{"set", "a", "--rate", "x"}, redis...), "no slash"},
		{append([]string{"reset"}, redis...), "needs the NAME"},
		{append([]string{"delete"}, redis...), "needs the NAME"},
		{[]string{"version"}, `no command "version"`},
		{[]string{"demo", "--nodes", "0"}, "--nodes is 0"},
		{[]string{"demo", "--nodes", "1000"}, "--nodes is 1000"},
		{[]string{"demo", "--workers", "0"}, "--workers is 0"},
		{[]string{"demo", "--for", "-1s"}, "at least 1s"},
		{[]string{"demo", "--for", "soon"}, "soon"},
		{[]string{"demo", "--rate", "0/s"}, "at least 1"},
		{[]string{"demo", "--shards", "-1"}, "Shards is -1"},
		{[]string{"demo", "--rate", "5/99ms"}, "must be at least 100ms"},
		{[]string{"run", "mails", "--timeout", "-1s", "--", "true"}, "at least 0s"},
		{[]string{"serve", "--limit", "a=5/s", "--grace", "-1s"}, "at least 0s"},
		{[]string{"demo", "please"}, `"please"`},
	} {
		text, code := runHere(t, c.args...)
		if code != exitUsage || !strings.Contains(text, c.says) {
			t.Errorf("%v ended with %d, want %d, and %q in: %s", c.args, code, exitUsage, c.says, text)
		}
		if len(c.args) > 0 && strings.Count(text, "\n") != 1 {
			t.Errorf("%v: want one line that says what is wrong, got: %s", c.args, text)
		}
		if strings.Contains(text, ": shardlimit: ") || strings.HasPrefix(text, "shardlimit: shardlimit") {
			t.Errorf("%v: it says twice who speaks: %s", c.args, text)
		}
	}
	if got := read(t, taken); got != "lines\n" {
		t.Errorf("the file that existed was changed to %q", got)
	}
}

func TestHelp(t *testing.T) {
	for _, c := range commands(console{}) {
		text, code := runHere(t, c.Name, "--help")
		if code != exitOK || !strings.Contains(text, "Example") || !strings.Contains(text, "  shardlimit "+c.Name) {
			t.Errorf("%s --help ended with %d: %s", c.Name, code, text)
		}
	}
	for _, args := range []string{"help allow", "allow pulls --help", "allow --help pulls", "run --help x -- y"} {
		if text, code := runHere(t, strings.Fields(args)...); code != exitOK || !strings.Contains(text, "Example") {
			t.Errorf("%s ended with %d: %s", args, code, text)
		}
	}
	for _, args := range []string{"set --help", "run --help"} {
		if text, _ := runHere(t, strings.Fields(args)...); strings.Contains(text, "(default: 0") {
			t.Errorf("%s tells of defaults that are none: %s", args, text)
		}
	}
	text, code := runHere(t, "--help")
	if same, ended := runHere(t, "help"); same != text || ended != exitOK {
		t.Errorf("help ended with %d: %s", ended, same)
	}
	if code != exitOK || !strings.Contains(text, "pace") || !strings.Contains(text, "demo") {
		t.Errorf("--help ended with %d: %s", code, text)
	}
	for _, args := range [][]string{{"--version"}, {"-v"}} {
		if text, code = runHere(t, args...); code != exitOK || !strings.HasPrefix(text, "shardlimit ") ||
			strings.Count(text, "\n") != 1 {
			t.Errorf("%v ended with %d: %s", args, code, text)
		}
	}
}

// A build says its version, wherever it was made.
func TestVersionOfABuild(t *testing.T) {
	out, err := exec.Command(built, "--version").Output()
	if err != nil || string(out) != "shardlimit v1.2.3\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// A page of help fits a terminal, and its examples stand as they are typed.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(commands(console{}), newApp(console{})) {
		for _, paragraph := range strings.Split(c.Description, "\n\n") { // one of a single line is wrapped
			lines := strings.Split(paragraph, "\n")
			for _, line := range lines {
				if (len(lines) > 1 || line[0] == ' ') && len(line) > helpWidth-3 {
					t.Errorf("%s, %d columns: %s", c.Name, len(line), line)
				}
			}
		}
		out, code := runHere(t, append(strings.Fields(strings.TrimPrefix(c.Name, "shardlimit")), "--help")...)
		for line := range strings.Lines(out) {
			if len(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s, %d columns: %s", c.Name, len(line), line)
			}
		}
		if code != 0 || !strings.Contains(out, "OPTIONS:\n   --") {
			t.Errorf("%s: %d, %s", c.Name, code, out)
		}
	}
}

func TestAProcessSaysWhoItIs(t *testing.T) {
	var p process
	cmd := &cli.Command{Flags: processFlags(), Action: func(_ context.Context, cmd *cli.Command) (err error) {
		p, err = readProcess(cmd)
		return err
	}}
	if err := cmd.Run(t.Context(),
		[]string{"x", "--embedded", "--participant", "ann", "--weight", "2.5", "--prefix", "p:"}); err != nil {
		t.Fatal(err)
	}
	if c := p.config; c.Participant != "ann" || c.Weight != 2.5 || c.KeyPrefix != "p:" || !p.embedded {
		t.Errorf("%+v", p)
	}
	client, closeAll, err := p.start()
	if err != nil || client == nil {
		t.Fatal(err)
	}
	closeAll()
	if p.config.Nodes != nil {
		t.Errorf("nodes that are closed by now: %+v", p.config.Nodes)
	}
}

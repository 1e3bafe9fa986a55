package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A wrong command line ends with 2 and says what to do; nothing is connected to.
func TestUsage(t *testing.T) {
	taken := file(t, "taken", "lines\n")
	const redis, paced = " --redis 127.0.0.1:1", "pace --name n --rate 5/s "
	c := redistest.NewCertificates(t)
	own, ownKey := " --tls-client-cert "+c.Cert, " --tls-client-key "+c.Key
	envoy, long := "serve --redis 127.0.0.1:1 --grpc :0 --config "+taken, strings.Repeat("n", 600)
	for _, step := range [][2]string{
		{"", "USAGE"},
		{"shows", `no command "shows"; did you mean show?`},
		{"--redis a:1 show mails", "not defined: -redis; flags come after the command; see"},
		{"show a --jsno" + redis, "shardlimit: flag provided but not defined: -jsno; see shardlimit show --help"},
		{"set a --shards many" + redis, `--shards: "many" is not a whole number`},
		{"allow a --weight much" + redis, `invalid value "much" for flag -weight`},
		{"set a --algorithm tokenbucket" + redis, `"tokenbucket" is none of fixed-window, leaky-bucket, sliding-`},
		{"set a --mode shadows" + redis, "is none of"},
		{"set a --rate x" + redis, "no slash"},
		{"set a" + redis, "nothing to set"},
		{"set a --family --rate 1/s --shards 2" + redis, "cannot be changed"},
		{"completion", "needs the name of a shell"},
		{"completion bash now", `got "now"`},

		{"show", "say where Redis is"},
		{"show a --redis a:1,http://b:2", "--redis: a URL cannot be read"},
		{"show a --redis a:1 --cluster b:2", "say where Redis is with one of"},
		{"show a --cluster a:1,b", `--cluster: "b" is not host:port`},
		{"show a --sentinel a:1", "not MASTER@"},
		{"show a --sentinel @a:1", "not MASTER@"},
		{"show a --sentinel m@", "an address is empty"},
		{"show a --sentinel m@redis://u:s3cret%zz@a:1", "--sentinel: a URL cannot be read"},
		{"serve --limit a=1/s --embedded --redis a:1", "--embedded needs no other server"},
		{paced + "--redis a:1,a:1", "taken by an earlier node"},

		{"allow" + redis, "needs the NAME"},
		{"show --every 1s" + redis, "--every needs the NAME"},
		{"show --key ann" + redis, "--key needs the NAME"},
		{"show a --every 1s --json" + redis, "for people"},
		{"show --participant ann" + redis, "--participant needs the NAME"},
		{"allow a 1 2" + redis, `takes NAME [N], but also got "2"`},
		{"set a 5/s --rate x" + redis, `got "5/s"`},
		{"allow a none" + redis, `N is "none"; it must be a whole number of permits`},
		{"run a" + redis, "needs the NAME of a limit and a command"},
		{"run a" + redis + " -- /no/such/command", `no command "/no/such/command"`},
		{"run mails --timeout 0s -- true", "at least 1ms"},
		{"show a --every 1ms" + redis, "at least 10ms"},

		{"rebalance a" + redis, `takes no argument, but also got "a"`},
		{"rebalance --drain 127.0.0.1:1" + redis, "lists one node only"},
		{"rebalance --drain 127.0.0.1:3 --redis 127.0.0.1:1,n2=127.0.0.1:2",
			`"127.0.0.1:3" is none of the nodes; they are 127.0.0.1:1, n2`},

		{"serve" + redis, "nothing to serve"},
		{"serve --grpc :0" + redis, "needs both of --grpc"},
		{"serve --config " + taken + redis, "needs both of --grpc"},
		{"serve --limit a=1/h --shadow" + redis, "needs both of --grpc"},
		{envoy, taken + ":1: cannot unmarshal"},
		{"serve --grpc :0 --config /no/such/file" + redis, "no such file"},
		{envoy + " --algorithm leaky-bucket", "--algorithm: "},
		{envoy + " --charge x", "--charge: "},
		{"serve --limit a=1/h --listen 8080" + redis, `--listen is "8080"`},
		{"serve --limit a=1/h --listen :" + redis, `--listen is ":"`},
		{"serve --limit mails" + redis, "is not NAME=RATE"},
		{"serve --limit =7/m" + redis, "is not NAME=RATE"},
		{"serve --per-key mails=5" + redis, "no slash"},
		{"serve --limit a=1/s --on-outage panic" + redis, "--on-outage"},
		{"serve --limit a=1/s --call-timeout 0s" + redis, "at least 1ms"},
		{"serve --limit a=1/s --limit a=2/s --embedded", "used twice"},
		{"serve --limit a=1/1us --embedded", "Per is 1"},
		{"serve --limit a=1/s --redis a:1 --participant " + long, "Participant has 600"},
		{"serve --limit a=5/s --grace -1s", "at least 0s"},

		{"pace", "--name"},
		{"pace --name n", "give a rate: --rate 500/s"},
		{paced + "--embedded --rest " + taken, "exists already"},
		{paced + "--embedded --rest= ", "the name of the file is empty"},
		{paced + "--embedded --rest " + taken + "/x", "not a directory"},
		{paced + "--embedded --rest " + filepath.Dir(taken) + "/no/x", "no such file"},
		{paced + "--embedded --shards 1000", "Shards is 1000"},
		{paced + "--embedded --weight 0", "--weight is 0"},
		{"pace --rate 5/s --embedded --name " + long, "name"},

		{"demo --nodes 0", "--nodes is 0"},
		{"demo --nodes 1000", "--nodes is 1000"},
		{"demo --workers 0", "--workers is 0"},
		{"serve --settings /no/such/file", "--settings: open /no/such/file"},
		{"serve --settings " + file(t, "a", "embedded: true\nlissten: x\n"), `/a: there is no setting "lissten"`},
		{"serve --settings " + file(t, "a", "settings: x\n"), `there is no setting "settings"`},
		{"serve --settings " + file(t, "a", "grace: 5\n"), `/a: grace: time: missing unit`},
		{"serve --settings " + file(t, "a", "denied: on\n"), `/a: denied: parse error`},
		{"serve --embedded --tls-cert " + c.Cert, "need each other"},
		{"serve --embedded --tls-cert " + c.Cert + " --tls-key " + c.CA, "--tls-cert: "},
		{"serve --embedded --token-file /no/such/file", "--token-file: open"},
		{"serve --embedded --token-file " + file(t, "a", "short\n"), "line 1: the token has 5 bytes"},

		{"show mails --redis rediss://a:1" + own, "need each other"},
		{"show mails --redis rediss://a:1" + ownKey, "need each other"},
		{"show mails --redis rediss://a:1 --tls-ca /no/such/file", "--tls-ca: open /no/such/file"},
		{"show mails --redis rediss://a:1 --tls-ca " + file(t, "empty.pem", ""), "no certificate in PEM"},
		{"show mails --redis rediss://a:1 --tls-client-cert " + c.CA + ownKey, "--tls-client-cert"},
		{"show mails --redis a:1 --tls-ca " + c.CA, "write rediss://"},
		{"show mails --cluster a:1" + own + ownKey, "write rediss://"},
		{"serve --limit a=1/s --embedded --tls-ca " + c.CA, "leave --tls-ca out"},

		{"demo --for -1s", "at least 1s"},
		{"demo --rate 0/s", "at least 1"},
		{"demo --rate 5/99ms", "must be at least 100ms"},
		{"demo --shards -1", "Shards is -1"},
	} {
		args, says := step[0], step[1]
		text, code := runHere(t, strings.Fields(args)...)
		if code != exitUsage || !strings.Contains(text, says) {
			t.Errorf("%s ended with %d, want %d, and %q in: %s", args, code, exitUsage, says, text)
		}
		if args != "" && strings.Count(text, "\n") != 1 {
			t.Errorf("%s: want one line that says what is wrong, got: %s", args, text)
		}
		if strings.Contains(text, ": shardlimit: ") || strings.HasPrefix(text, "shardlimit: shardlimit") {
			t.Errorf("%s: it says twice who speaks: %s", args, text)
		}
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s: it shows the password: %s", args, text)
		}
	}
	if got := read(t, taken); got != "lines\n" {
		t.Errorf("the file that existed was changed to %q", got)
	}
}

// A build says its version, wherever it was made.
func TestVersionOfABuild(t *testing.T) {
	out, err := tool(t, "--version").Output()
	if err != nil || string(out) != "shardlimit v1.2.3\n" {
		t.Errorf("%v: %s", err, out)
	}
}

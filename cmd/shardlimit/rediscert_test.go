package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A server that wants to see a certificate, and shows one that the system does not know, is reached
// with the flags alone.
func TestRedisWithTLS(t *testing.T) {
	t.Parallel()
	c := redistest.NewCertificates(t)
	address := redistest.Standalone(t, redistest.TLS(t, c)).Addr()
	all := " --redis n=rediss://" + address + " --prefix " + redistest.Prefix(t)
	ca, own := " --tls-ca "+c.CA, " --tls-client-cert "+c.Cert+" --tls-client-key "+c.Key
	for _, step := range []struct {
		args string
		code int
		says string // a pattern
	}{
		{"set mails --rate 5/m" + all + ca + own, exitOK, "mails"},
		{"show mails" + all + ca + own, exitOK, "free 5"},
		{"show mails" + all, exitFailed, "certificate"},
		// the server says why, or has hung up before that is read
		{"show mails" + all + ca, exitFailed, "certificate required|cannot reach " + address},
	} {
		text, code := runHere(t, strings.Fields(step.args)...)
		if code != step.code || !regexp.MustCompile(step.says).MatchString(text) {
			t.Errorf("%s ended with %d: %s", step.args, code, text)
		}
	}
}

func TestProofsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	c := redistest.NewCertificates(t)
	cert, key := " --tls-client-cert "+c.Cert, " --tls-client-key "+c.Key
	for _, step := range [][2]string{
		{"show mails --redis rediss://a:1" + cert, "need each other"},
		{"show mails --redis rediss://a:1" + key, "need each other"},
		{"show mails --redis rediss://a:1 --tls-ca /no/such/file", "--tls-ca: open /no/such/file"},
		{"show mails --redis rediss://a:1 --tls-ca " + file(t, "empty.pem", ""), "no certificate in PEM"},
		{"show mails --redis rediss://a:1 --tls-client-cert " + c.CA + key, "--tls-client-cert"},
		{"show mails --redis a:1 --tls-ca " + c.CA, "write rediss://"},
		{"show mails --sentinel m@a:1 --tls-ca " + c.CA, "write rediss://"},
		{"show mails --cluster a:1" + cert + key, "write rediss://"},
		{"serve --limit a=1/s --embedded --tls-ca " + c.CA, "leave --tls-ca out"},
	} {
		text, code := runHere(t, strings.Fields(step[0])...)
		if code != exitUsage || !strings.Contains(text, step[1]) || strings.Count(text, "\n") != 1 {
			t.Errorf("%s ended with %d: %s", step[0], code, text)
		}
	}
}

// Servers behind Sentinel and the sentinels are logged in to with users of their own, from one URL.
func TestSentinelWithUsers(t *testing.T) {
	t.Parallel()
	set := redistest.NewSentinel(t, 1)
	watcher, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: set.Addrs(), ForceSingleClient: true,
		DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	setUser(t, watcher, "watch", "l%k")
	for _, s := range set.Servers() {
		setUser(t, s.Client(t), "app", "p@ss")
	}
	master := set.ClientOption().Sentinel.MasterSet
	target := func(user, watch string) []string {
		return []string{"--prefix", redistest.Prefix(t), "--sentinel",
			master + "@redis://" + user + "@" + set.Addrs()[0] + "?sentinel_user=watch&sentinel_password=" + watch}
	}
	for _, step := range []struct {
		user, watch string
		code        int
	}{{"app:p%40ss", "l%25k", exitOK}, {"app:wrong", "l%25k", exitFailed}, {"app:p%40ss", "wrong", exitFailed}} {
		text, code := runHere(t,
			append([]string{"set", "mails", "--rate", "5/m"}, target(step.user, step.watch)...)...)
		if code != step.code || strings.Contains(text, "p@ss") {
			t.Errorf("%+v ended with %d: %s", step, code, text)
		}
	}
}

// setUser adds a user to a server.
func setUser(t *testing.T, c rueidis.Client, name, password string) {
	t.Helper()
	rules := []string{"SETUSER", name, "on", ">" + password, "~*", "&*", "+@all"}
	if err := c.Do(t.Context(), c.B().Arbitrary("ACL").Args(rules...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

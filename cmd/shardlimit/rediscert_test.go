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

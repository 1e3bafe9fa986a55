package main

import (
	"os"
	"path/filepath"
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
	all := []string{"--redis", "n=rediss://" + address, "--prefix", redistest.Prefix(t)}
	set := []string{"set", "mails", "--rate", "5/m"}
	ca, cert, key := []string{"--tls-ca", c.CA}, []string{"--tls-client-cert", c.Cert}, []string{"--tls-client-key",
		c.Key}
	for _, step := range []struct {
		args [][]string
		code int
		says string // a pattern
	}{
		{[][]string{set, all, ca, cert, key}, exitOK, "mails"},
		{[][]string{{"show", "mails"}, all, ca, cert, key}, exitOK, "free 5"},
		{[][]string{{"show", "mails"}, all}, exitFailed, "certificate"},
		// the server says why, or has hung up before that is read
		{[][]string{{"show", "mails"}, all, ca}, exitFailed,
			"certificate required|cannot reach " + address},
	} {
		var args []string
		for _, some := range step.args {
			args = append(args, some...)
		}
		text, code := shardlimitRun(t, args...)
		if code != step.code || !regexp.MustCompile(step.says).MatchString(text) {
			t.Errorf("%v ended with %d: %s", args, code, text)
		}
	}
}

func TestProofsAreCheckedFirst(t *testing.T) {
	t.Parallel()
	c := redistest.NewCertificates(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"--redis", "rediss://a:1", "--tls-client-cert", c.Cert}, "need each other"},
		{[]string{"--redis", "rediss://a:1", "--tls-client-key", c.Key}, "need each other"},
		{[]string{"--redis", "rediss://a:1", "--tls-ca", "/no/such/file"}, "--tls-ca: open /no/such/file"},
		{[]string{"--redis", "rediss://a:1", "--tls-ca", empty}, "no certificate in PEM"},
		{[]string{"--redis", "rediss://a:1", "--tls-client-cert", c.CA, "--tls-client-key", c.Key},
			"--tls-client-cert"},
		{[]string{"--redis", "a:1", "--tls-ca", c.CA}, "write rediss://"},
		{[]string{"--sentinel", "m@a:1", "--tls-ca", c.CA}, "write rediss://"},
		{[]string{"--cluster", "a:1", "--tls-client-cert", c.Cert, "--tls-client-key", c.Key}, "write rediss://"},
	} {
		text, code := shardlimitRun(t, append([]string{"show", "mails"}, step.args...)...)
		if code != exitUsage || !strings.Contains(text, step.says) || strings.Count(text, "\n") != 1 {
			t.Errorf("%v ended with %d: %s", step.args, code, text)
		}
	}
	text, code := shardlimitRun(t, "serve", "--limit", "a=1/s", "--embedded", "--tls-ca", c.CA)
	if code != exitUsage || !strings.Contains(text, "leave --tls-ca out") {
		t.Errorf("--embedded ended with %d: %s", code, text)
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
		text, code := shardlimitRun(t,
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

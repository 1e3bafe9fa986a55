package main

import (
	"regexp"
	"strings"
	"testing"

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
	set.Do(t, "ACL", "SETUSER", "watch", "on", ">l%k", "~*", "&*", "+@all")
	for _, s := range set.Servers() {
		s.Do(t, "ACL", "SETUSER", "app", "on", ">p@ss", "~*", "&*", "+@all")
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

package main

import (
	"os"
	"path/filepath"
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
	if code != exitUsage || !strings.Contains(text, "has no TLS") {
		t.Errorf("--embedded ended with %d: %s", code, text)
	}
}

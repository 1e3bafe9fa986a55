package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Each form of a flag makes nodes of its kind, with names and addresses, that the library takes.
func TestNodes(t *testing.T) {
	for _, c := range []struct{ redis, cluster, sentinel, want string }{
		{"x=redis://u:p=q@a:1/2,y=rediss://b:2", "", "", "x=[a:1] y=[b:2] "},
		{"", "a:1,b:2", "", "=[a:1 b:2] "},
		{"", "main=redis://u:p@a:1,b:2", "", "main=[a:1 b:2] "},
		{"", "", "mymaster@a:1,b:2", "=[a:1 b:2] "},
		{"", "", "n=mymaster@a:1", "n=[a:1] "},
		{"", "", "n=mymaster@redis://u:p@a:1/2,b:2", "n=[a:1 b:2] "},
		{"", "", "mymaster@rediss://[::1]:1", "=[[::1]:1] "},
	} {
		all, err := nodes(c.redis, c.cluster, c.sentinel)
		got := ""
		for _, n := range all {
			got += fmt.Sprintf("%s=%s ", n.Name, n.Redis.InitAddress)
			if n.Redis.ForceSingleClient != (c.redis != "") ||
				(n.Redis.Sentinel.MasterSet == "mymaster") != (c.sentinel != "") {
				t.Errorf("%+v: the wrong kind of client: %+v", c, n.Redis)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
		client, err := shardlimit.New(shardlimit.Config{Nodes: all})
		limittest.Must(t, err)
		client.Close()
	}
}

// Users are those of TestSentinelWithUsers.
func TestSentinelsAndTheirServersAreLoggedInToApart(t *testing.T) {
	all, err := nodes("", "", "m@rediss://me:sec%40ret@a:1/2?sentinel_user=them&sentinel_password=other,b:2")
	limittest.Must(t, err)
	o := all[0].Redis
	if o.SelectDB != 2 || o.TLSConfig == nil || o.Sentinel.TLSConfig == nil || o.TLSConfig.ServerName != "" {
		t.Errorf("%+v, TLS %+v, %+v", o, o.TLSConfig, o.Sentinel.TLSConfig)
	}
	if all, err = nodes("", "rediss://a:1,b:2", ""); err != nil || all[0].Redis.TLSConfig.ServerName != "" {
		t.Errorf("each server of a cluster shows a certificate for its own name: %+v, %v", all, err)
	}
	if all, err = nodes("", "", "m@redis://a:1"); err != nil || all[0].Redis.Sentinel.TLSConfig != nil ||
		all[0].Redis.Sentinel.Password != "" {
		t.Errorf("%+v, %v", all, err)
	}
}

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

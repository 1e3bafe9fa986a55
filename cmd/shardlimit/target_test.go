package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestNodes(t *testing.T) {
	for _, c := range []struct {
		redis, cluster, sentinel string
		names, addresses         []string // addresses of all nodes
	}{
		{"10.0.0.1:1", "", "", []string{""}, []string{"10.0.0.1:1"}},
		{"x=redis://u:p=q@a:1/2,y=rediss://b:2", "", "", []string{"x", "y"}, []string{"a:1", "b:2"}},
		{"", "a:1,b:2", "", []string{""}, []string{"a:1", "b:2"}},
		{"", "main=redis://u:p@a:1,b:2", "", []string{"main"}, []string{"a:1", "b:2"}},
		{"", "", "mymaster@a:1,b:2", []string{""}, []string{"a:1", "b:2"}},
		{"", "", "n=mymaster@a:1", []string{"n"}, []string{"a:1"}},
		{"", "", "n=mymaster@redis://u:p@a:1/2,b:2", []string{"n"}, []string{"a:1", "b:2"}},
		{"", "", "mymaster@rediss://[::1]:1", []string{""}, []string{"[::1]:1"}},
	} {
		all, err := nodes(c.redis, c.cluster, c.sentinel)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var names, addresses []string
		for _, n := range all {
			names = append(names, n.Name)
			addresses = append(addresses, n.Redis.InitAddress...)
			if n.Redis.ForceSingleClient != (c.redis != "") ||
				(n.Redis.Sentinel.MasterSet == "mymaster") != (c.sentinel != "") {
				t.Errorf("%+v: the wrong kind of client: %+v", c, n.Redis)
			}
		}
		if !slices.Equal(names, c.names) || !slices.Equal(addresses, c.addresses) {
			t.Errorf("%+v: names %q, addresses %q", c, names, addresses)
		}
		client, err := shardlimit.New(shardlimit.Config{Nodes: all})
		if err != nil {
			t.Errorf("%+v: the library refuses it: %v", c, err)
			continue
		}
		client.Close()
	}
}

func TestSentinelsAndTheirServersAreLoggedInToApart(t *testing.T) {
	all, err := nodes("", "", "m@rediss://me:sec%40ret@a:1/2?sentinel_user=them&sentinel_password=other,b:2")
	limittest.Must(t, err)
	o := all[0].Redis
	if o.Username != "me" || o.Password != "sec@ret" || o.SelectDB != 2 || o.Sentinel.Username != "them" ||
		o.Sentinel.Password != "other" {
		t.Errorf("%+v", o)
	}
	if o.TLSConfig == nil || o.Sentinel.TLSConfig == nil || o.TLSConfig.ServerName != "" {
		t.Errorf("TLS: %+v, %+v", o.TLSConfig, o.Sentinel.TLSConfig)
	}
	if all, err = nodes("", "rediss://a:1,b:2", ""); err != nil || all[0].Redis.TLSConfig.ServerName != "" {
		t.Errorf("each server of a cluster shows a certificate for its own name: %+v, %v", all, err)
	}
	if all, err = nodes("", "", "m@redis://a:1"); err != nil || all[0].Redis.Sentinel.TLSConfig != nil ||
		all[0].Redis.Sentinel.Password != "" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestNodesRefuse(t *testing.T) {
	for _, c := range []struct{ redis, cluster, sentinel, says string }{
		{"", "a:1,b", "", "not host:port"},
		{"", "", "a:1", "not MASTER@"},
		{"", "", "@a:1", "not MASTER@"},
		{"", "", "m@", "an address is empty"},
		{"", "", "m@redis://u:pass word%zz@a:1", "cannot be read"},
	} {
		_, err := nodes(c.redis, c.cluster, c.sentinel)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && strings.Contains(err.Error(), "pass word") {
			t.Errorf("%+v: the error shows the password: %v", c, err)
		}
	}
}

package server_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// A cluster serves every slot, and adds up what its masters did.
func TestCluster(t *testing.T) {
	servertest.Require(t)
	c, err := server.StartCluster(t.Context(), "redis-server", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client, err := rueidis.NewClient(server.Option(c.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		eval := client.B().Eval().Script("return redis.call('SET', KEYS[1], 1)").Numkeys(1).Key(key).Build()
		if err := client.Do(t.Context(), eval).Error(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if u, err := c.Usage(t.Context()); err != nil || u.Scripts != 8 {
		t.Errorf("%d scripts, %v", u.Scripts, err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if found, err := client.Do(t.Context(), client.B().Exists().Key("a").Build()).AsInt64(); err != nil || found != 0 {
		t.Errorf("%d keys after Flush, %v", found, err)
	}
}

package shardlimit_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
)

func TestParseNodes(t *testing.T) {
	nodes, err := shardlimit.ParseNodes(" redis-a:6379 ,eu=redis-b,rediss://ann:s%40cret@redis-c:7000/2")
	if err != nil || len(nodes) != 3 {
		t.Fatalf("%+v, %v", nodes, err)
	}
	a, b, c := nodes[0], nodes[1], nodes[2]
	if a.Name != "" || a.Redis.InitAddress[0] != "redis-a:6379" || a.Redis.TLSConfig != nil ||
		!a.Redis.ForceSingleClient {
		t.Errorf("%+v", a)
	}
	if b.Name != "eu" || b.Redis.InitAddress[0] != "redis-b:6379" {
		t.Errorf("%+v", b)
	}
	if c.Redis.InitAddress[0] != "redis-c:7000" || c.Redis.Username != "ann" || c.Redis.Password != "s@cret" ||
		c.Redis.SelectDB != 2 || c.Redis.TLSConfig == nil {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"", "a:6379,,b:6379", "host:port:port", "http://a", "redis://ann:secret@%zz",
		"redis://a:1?addr=b:2"} {
		nodes, err := shardlimit.ParseNodes(bad)
		if !errors.Is(err, shardlimit.ErrInvalidConfig) || nodes != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v", bad, nodes, err)
		}
	}
}

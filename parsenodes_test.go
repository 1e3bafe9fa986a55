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
		"redis://a:1?addr=b:2", "redis-a:0", "redis-a:65536", "::1", "::1:6379", "redis://::1:6379",
		"redis://ann:secret@a/-1", "redis://ann:secret@a:99999"} {
		nodes, err := shardlimit.ParseNodes(bad)
		if !errors.Is(err, shardlimit.ErrInvalidConfig) || nodes != nil || strings.ContainsAny(err.Error(), "\n") ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, %v", bad, nodes, err)
		}
	}
}

// What is wrong with an address is told with what to write, and without a password.
func TestParseNodesTellsWhatToWrite(t *testing.T) {
	const comma, kinds = "a comma stands between addresses", `is not host:port or NAME=host:port; a URL begins with ` +
		`redis://, rediss:// or unix://`
	for bad, says := range map[string]string{
		"127.0.0.1:1;127.0.0.1:2": comma, "127.0.0.1:1 127.0.0.1:2": comma,
		"redis://ann:secret@a:1;redis://ann:secret@b:2": comma,
		"::1":                            "stands in brackets: write [::1]:6379",
		"::1:31001":                      "write [::1]:31001",
		"redis://2001:db8::1:1":          "write [2001:db8::1]:1",
		"/tmp/x.sock":                    kinds,
		"=127.0.0.1:1":                   kinds,
		"host:port:port":                 "two ports",
		"redis://10.0.0.1:1:2":           "two ports",
		"ann:secret%zz@a":                kinds,
		"redis://ann:top;secret/ret@a:1": "a URL cannot be read",
		"redis://:my secret?word@a:1":    "a URL cannot be read",
	} {
		_, err := shardlimit.ParseNodes(bad)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A name may be an address; what looks like one in a URL or before a password is none.
func TestParseNodesFindsNames(t *testing.T) {
	for list, want := range map[string][2]string{
		"127.0.0.1:7001=localhost:7001":            {"127.0.0.1:7001", "localhost:7001"},
		"[::1]:7001=redis://ann:pw@localhost:7001": {"[::1]:7001", "localhost:7001"},
		"eu=localhost:7001":                        {"eu", "localhost:7001"},
		"ann:12=34@localhost:7001":                 {"", "localhost:7001"},
		"redis://ann:p=w@localhost:7001":           {"", "localhost:7001"},
	} {
		nodes, err := shardlimit.ParseNodes(list)
		if err != nil || len(nodes) != 1 || nodes[0].Name != want[0] || nodes[0].Redis.InitAddress[0] != want[1] {
			t.Errorf("%s: %+v, %v", list, nodes, err)
		}
	}
	_, err := shardlimit.ParseNodes(" ")
	if err == nil || err.Error() !=
		"shardlimit: invalid config: the list of nodes is empty; write redis-a:6379,redis-b:6379" {
		t.Errorf("got %v", err)
	}
}

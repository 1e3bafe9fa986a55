package faults

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// Every call works on each kind of server that users have. CI runs this on the servers of a table
// in docs/howto/deploy-redis.md.
func TestEveryKindOfServer(t *testing.T) {
	t.Parallel()
	certificates := redistest.NewCertificates(t)
	use := func(t *testing.T, o rueidis.ClientOption) {
		node := shardlimit.Node{Name: "n", Redis: limittest.Unhurried(o)}
		useAll(t, limittest.Fleet{Nodes: []shardlimit.Node{node}, Prefix: redistest.Prefix(t)})
	}
	type reached = func(*testing.T, *redistest.Server) rueidis.ClientOption
	one := func(how reached, opts ...redistest.Option) func(*testing.T) {
		return func(t *testing.T) { use(t, how(t, redistest.Standalone(t, opts...))) }
	}
	plain := func(_ *testing.T, s *redistest.Server) rueidis.ClientOption { return s.ClientOption() }
	socket := filepath.Join(t.TempDir(), "redis.sock")
	for name, kind := range map[string]func(*testing.T){
		"standalone": one(plain),
		"cluster": func(t *testing.T) {
			f, _ := limittest.Clustered(t, 0)
			useAll(t, f)
		},
		"Sentinel": func(t *testing.T) {
			use(t, redistest.NewSentinel(t, 1).ClientOption())
		},
		"TLS, a cluster with a user": func(t *testing.T) {
			if !redistest.HasTLS(t) {
				t.Log("the program has no TLS")
				return
			}
			f, cluster := limittest.Clustered(t, 0, redistest.TLS(t, certificates))
			for _, s := range cluster.Servers() {
				permit(t, s.Client(t), append(documentedUser(t, 1, f.Prefix), besides(t, "cluster")...)...)
			}
			f.Nodes[0].Redis = as(f.Nodes[0].Redis)
			useAll(t, f)
		},
		"Unix socket": one(func(t *testing.T, _ *redistest.Server) rueidis.ClientOption {
			return parsed(t, "unix://"+socket)
		}, redistest.Args("--unixsocket", socket)),
		"IPv6": one(func(t *testing.T, s *redistest.Server) rueidis.ClientOption {
			if l, err := net.Listen("tcp", "[::1]:0"); err != nil {
				t.Skip(err)
			} else if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			c := s.Client(t)
			bind := c.B().ConfigSet().ParameterValue().ParameterValue("bind", "127.0.0.1 ::1").Build()
			if err := c.Do(t.Context(), bind).Error(); err != nil {
				t.Fatal(err)
			}
			return parsed(t, strings.Replace(s.Addr(), "127.0.0.1", "[::1]", 1))
		}),
		// As managed ones are set up.
		"no CONFIG, volatile-lru": one(plain, redistest.Args("--maxmemory", "100mb",
			"--maxmemory-policy", "volatile-lru",
			"--rename-command", "CONFIG", "", "--rename-command", "SCRIPT", "", "--rename-command", "WAIT", "",
			"--rename-command", "DEBUG", "", "--rename-command", "KEYS", "", "--rename-command", "FLUSHALL", "")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind(t)
		})
	}
}

// parsed is the configuration of a node as people write it.
func parsed(t *testing.T, node string) rueidis.ClientOption {
	t.Helper()
	nodes, err := shardlimit.ParseNodes(node)
	if err != nil {
		t.Fatal(err)
	}
	return nodes[0].Redis
}

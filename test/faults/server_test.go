package faults

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// grantedTo is what limiters are granted one after the other, each in twelve calls.
func grantedTo(t *testing.T, limiters ...*shardlimit.Limiter) (got int64) {
	t.Helper()
	for _, l := range limiters {
		for range 12 {
			if d, err := l.AllowUpTo(t.Context(), 300); err == nil {
				got += d.Granted
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return got
}

// useAndRest has limiters called now and then for a while, and then leave what they used behind.
func useAndRest(t *testing.T, limiters ...*shardlimit.Limiter) {
	t.Helper()
	for range 12 {
		for _, l := range limiters {
			_, _ = l.Allow(t.Context())
		}
		time.Sleep(10 * time.Second)
	}
	time.Sleep(31 * time.Second)
}

// ofThree is a limit with a shard on each of three nodes.
var ofThree = shardlimit.Limit{Permits: 300, Per: 30 * time.Second, Shards: 3}

// A server was started with a snapshot of another one, and has its name by that. No two servers
// serve one shard.
func TestAServerWithASnapshotOfAnother(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		old := fl.Limiter(t, ofThree, limittest.TakesOver)
		useAndRest(t, old)
		image := fl.Bubble[1].Redis.Save(everyKey)
		fl.Bubble[0].Redis.Restart()
		fl.Bubble[0].Redis.Load(image, everyKey)
		for range 4 { // whichever node a process reaches first
			fresh := fl.Limiter(t, ofThree, limittest.TakesOver)
			useAndRest(t, old, fresh)
			if got := grantedTo(t, old, fresh, old); got > ofThree.Permits {
				t.Errorf("%d of %d permits", got, ofThree.Permits)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// The address of one node leads a process to the server of another for a while. Neither then nor
// later do two servers serve one shard.
func TestAnAddressThatLeadsToAnotherServer(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, fl limittest.Fleet) {
		right := fl.Limiter(t, ofThree, limittest.TakesOver)
		other, address := addressOf(fl)
		led := other.Limiter(t, ofThree, limittest.TakesOver)
		useAndRest(t, right, led)
		for _, to := range []int{1, 0} {
			address.leads(fl.Nodes[to].Redis.DialCtxFn)
			useAndRest(t, right, led)
			fresh := fl.Limiter(t, ofThree, limittest.TakesOver)
			useAndRest(t, right, fresh)
			if got := grantedTo(t, right, led, fresh); got > ofThree.Permits {
				t.Errorf("led to server %d: %d of %d permits", to, got, ofThree.Permits)
			}
			time.Sleep(31 * time.Second)
		}
	})
}

// What deploy-redis.md says of a move to another server: replicate, pause the writes of the old
// one, wait for its offset, promote, and restart the processes with the new address. What was
// granted there counts here, and the rest is to be had.
func TestAServerIsMovedByReplication(t *testing.T) {
	t.Parallel()
	servers := redistest.Servers(t, 2)
	from, to := servers[0], servers[1]
	before := alone(t, from.ClientOption())
	limit := shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 1}
	got := map[string]int64{}
	take := func(s *redistest.Server, n int64) {
		c := before.With(alone(t, s.ClientOption()).Nodes...).Client(t)
		users := limittest.Family(t, c, "users", limit)
		limiters := []*shardlimit.Limiter{limittest.Limiter(t, c, "l", limit)}
		for i := range 20 {
			limiters = append(limiters, users.Limiter(fmt.Sprint("user ", i)))
		}
		for _, l := range limiters {
			d, err := l.AllowUpTo(t.Context(), n)
			if err != nil || d.Degraded {
				t.Fatalf("%s: %+v, %v", l.Name(), d, err)
			}
			got[l.Name()] += d.Granted
		}
		c.Close()
	}
	offset := func(s *redistest.Server, field string) string {
		return regexp.MustCompile(field + `:(\d+)`).FindString(s.Do(t, "INFO", "replication"))[len(field):]
	}
	take(from, 40)
	host, port, _ := net.SplitHostPort(from.Addr())
	to.Do(t, "REPLICAOF", host, port)
	limittest.AwaitThat(t, "it is a replica", func() bool {
		return strings.Contains(to.Do(t, "INFO", "replication"), "master_link_status:up")
	})
	take(from, 10)
	from.Do(t, "CLIENT", "PAUSE", "30000", "WRITE")
	limittest.AwaitThat(t, "it has the last grants", func() bool {
		return offset(from, "master_repl_offset") == offset(to, "slave_repl_offset")
	})
	to.Do(t, "REPLICAOF", "NO", "ONE")
	take(to, limit.Permits)
	for name, n := range got {
		if n != limit.Permits {
			t.Errorf("%s: %d of %d permits", name, n, limit.Permits)
		}
	}
}

// Every call works on each kind of server that users have. CI runs this on the servers of a table
// in docs/howto/deploy-redis.md.
func TestEveryKindOfServer(t *testing.T) {
	t.Parallel()
	certificates := redistest.NewCertificates(t)
	type reached = func(*testing.T, *redistest.Server) rueidis.ClientOption
	one := func(how reached, opts ...redistest.Option) func(*testing.T) {
		return func(t *testing.T) { useAll(t, alone(t, how(t, redistest.Standalone(t, opts...)))) }
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
			useAll(t, alone(t, redistest.NewSentinel(t, 1).ClientOption()))
		},
		"TLS, a cluster with a user": func(t *testing.T) {
			if !redistest.HasTLS(t) {
				t.Log("the program has no TLS")
				return
			}
			f, cluster := limittest.Clustered(t, 0, redistest.TLS(t, certificates))
			for _, s := range cluster.Servers() {
				permit(t, s, f.Prefix, "cluster")
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
			limittest.Must(t, c.Do(t.Context(), bind).Error())
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

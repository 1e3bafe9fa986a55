package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// One server is listed twice, by addresses that do not look alike. It is used once.
func TestAServerThatIsListedTwiceServesOnce(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 4}
		l := f.With(f.Nodes[0], f.Nodes[0]).Called("a", "b").Limiter(t, limit)
		got := limittest.Exhaust(t, l, 100)
		for _, names := range [][]string{{"b", "a"}, {"c", "d"}} {
			got += limittest.Exhaust(t, f.With(f.Nodes[0], f.Nodes[0]).Called(names...).Limiter(t, limit), 10)
		}
		if st := limittest.Peek(t, l); got != 100 || len(limittest.Hosts(st)) != 1 {
			t.Errorf("%d of 100 permits from %v", got, limittest.Hosts(st))
		}
	})
}

// dial connects to a server.
type dial = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error)

// address is what leads a process to the server of a node.
type address struct {
	mu   sync.Mutex
	to   dial
	open []net.Conn
}

// addressOf is the address of the first node of a fleet for a process of its own.
func addressOf(f limittest.Fleet) (limittest.Fleet, *address) {
	f = f.With(slices.Clone(f.Nodes)...)
	a := &address{to: f.Nodes[0].Redis.DialCtxFn}
	f.Nodes[0].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
		cfg *tls.Config) (net.Conn, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		conn, err := a.to(ctx, addr, d, cfg)
		if err == nil {
			a.open = append(a.open, conn)
		}
		return conn, err
	}
	return f, a
}

// leads has the address lead elsewhere from now on. Connections that there are end.
func (a *address) leads(to dial) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
	for _, conn := range a.open {
		_ = conn.Close()
	}
	a.open = nil
}

// A server goes on to take connections, and closes them before it has said anything. It is not
// connected anew and anew to ask for its name.
func TestAServerThatDropsConnectionsIsLeftAlone(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		f, address := addressOf(f)
		l := f.Limiter(t, shardlimit.PerMinute(10))
		limittest.MustGet(t, l, 1)
		time.Sleep(10 * time.Second)
		dials := 0
		address.leads(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			if dials++; dials > 1000 {
				return nil, errors.New("enough") // or the time of the bubble would stand still
			}
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		})
		for range 10 {
			_, _ = l.Allow(t.Context())
			time.Sleep(time.Second)
		}
		address.mu.Lock()
		defer address.mu.Unlock()
		if dials == 0 || dials > 100 {
			t.Errorf("it was connected %d times in 10 s", dials)
		}
	})
}

// Two processes call the same servers by other names: they share each limit, once.
func TestNamesAreLabels(t *testing.T) {
	f, _ := limittest.Independent(t, 3)
	share(t, f.Called("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"), f.Called("localhost:1", "redis-b:1", "redis-c:1"))
	f = limittest.Standalone(t)
	share(t, f.Called("127.0.0.1:6379"), f.Called("redis"))
}

// The address of a node leads to another server from some time on, one of the Config or not. That
// server has other keys: a process that finds out grants nothing of the node's there.
func TestKeysAreNotAskedForOnAnotherServer(t *testing.T) {
	for name, to := range map[string]int{"of another node, just started": 1, "of no node": 3} {
		limittest.RunInBubble(t, name, 4, func(t *testing.T, f limittest.Fleet) {
			if to == 3 {
				time.Sleep(time.Minute) // it has run for a while
			}
			for i := range f.Nodes {
				f.Far(i, time.Millisecond)
			}
			right := f.Family(t, shardlimit.PerHour(10))
			moved, address := addressOf(f.With(f.Nodes[:3]...))
			wrong := moved.Family(t, shardlimit.PerHour(10))
			var keys []string
			for i := 0; len(keys) < 6; i++ {
				key := fmt.Sprint("user ", i)
				if limittest.Peek(t, right.Limiter(key)).Shards[0].Node == "n0" {
					keys = append(keys, key)
					limittest.MustGet(t, wrong.Limiter(key), 1)
				}
			}
			address.leads(f.Nodes[to].Redis.DialCtxFn)
			for range 12 { // it finds out
				_, _ = wrong.Limiter(keys[0]).Allow(t.Context())
				time.Sleep(500 * time.Millisecond)
			}
			for _, key := range keys[1:] {
				granted := int64(1)
				for range 24 {
					for _, users := range []*shardlimit.Family{right, wrong} {
						if d, err := users.Limiter(key).Allow(t.Context()); err == nil {
							granted += d.Granted
						}
					}
				}
				if granted > 10 {
					t.Errorf("%s: %d granted", key, granted)
				}
			}
		})
	}
}

// The seeds of a cluster may be listed in any order, and without a name.
func TestSeedsComeInAnyOrder(t *testing.T) {
	f, _ := limittest.Clustered(t, 0)
	f.Nodes[0].Name = ""
	other := f.With(slices.Clone(f.Nodes)...)
	other.Nodes[0].Redis.InitAddress = slices.Clone(other.Nodes[0].Redis.InitAddress)
	slices.Reverse(other.Nodes[0].Redis.InitAddress)
	share(t, f, other)
}

// share checks that processes of two fleets have one limit together, on the nodes as the first
// calls them.
func share(t *testing.T, one, two limittest.Fleet) {
	t.Helper()
	limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Shards: 3}
	a, b := one.Limiter(t, limit), two.Limiter(t, limit)
	got := int64(0)
	for _, l := range []*shardlimit.Limiter{a, b, a, b} {
		d, err := l.AllowUpTo(t.Context(), 10)
		limittest.Must(t, err)
		got += d.Granted
	}
	as, other := limittest.Hosts(limittest.Peek(t, a)), limittest.Hosts(limittest.Peek(t, b))
	if got != 30 || !slices.Equal(as, other) {
		t.Errorf("%d of 30 permits, of %v and %v", got, as, other)
	}
}

// One process calls the servers by names of its own. It harms nobody, also where it comes first to
// servers that were restarted empty, one after the other.
func TestMisnamedProcessShutsNobodyOut(t *testing.T) {
	limittest.InBubble(t, 3, func(t *testing.T, f limittest.Fleet) {
		limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
		right := f.Limiter(t, limit, limittest.TakesOver)
		limittest.Settled(t, right)
		canary := f.Called("x", "y", "z").Client(t, limittest.TakesOver)
		serve := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				limittest.Must(t, limittest.Err(right.Allow(t.Context())))
			}
		}
		for _, node := range f.Bubble {
			node.Redis.Restart()
			if l, err := canary.Limiter(t.Context(), "l", limit); err == nil {
				_, _ = l.Allow(t.Context())
			}
			serve(4 * time.Minute)
		}
		canary.Close()
		serve(time.Minute)
	})
}

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
			l, err := net.Listen("tcp", "[::1]:0")
			if err != nil {
				t.Skip(err)
			}
			limittest.Must(t, l.Close())
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
	limittest.Must(t, err)
	return nodes[0].Redis
}

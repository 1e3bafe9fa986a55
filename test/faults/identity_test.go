package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
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

func TestAConfigThatListsAServerTwiceIsRefused(t *testing.T) {
	f, servers := limittest.Independent(t, 2)
	client := servers[0].Client(t)
	other := f.Nodes[0]
	other.Redis.SelectDB = 1
	for name, c := range map[string]struct {
		nodes []shardlimit.Node
		valid bool
	}{
		"address":          {f.With(f.Nodes[0], f.Nodes[0]).Called("a", "b").Nodes, false},
		"client":           {[]shardlimit.Node{{Name: "a", Client: client}, {Name: "b", Client: client}}, false},
		"another":          {f.With(f.Nodes[0], f.Nodes[1]).Called("a", "b").Nodes, true},
		"another database": {f.With(f.Nodes[0], other).Called("a", "b").Nodes, true},
	} {
		made, err := shardlimit.New(shardlimit.Config{Nodes: c.nodes})
		if c.valid != (err == nil) || !c.valid && !errors.Is(err, shardlimit.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
		if made != nil {
			made.Close()
		}
	}
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

// Processes call one server by other names, as by its address: they share the limit, one under each
// prefix.
func TestAServerUnderTwoNamesDoesNotGrantTwice(t *testing.T) {
	f := limittest.Standalone(t)
	limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
	limittest.Served(t, f.Called("127.0.0.1:6379").Limiter(t, limit), 9)
	for i, other := range []string{"localhost:6379", "redis"} {
		l := f.Called(other).Limiter(t, limit)
		got, at := limittest.Grants(t, l), limittest.Peek(t, l).Shards[0].Node
		if got != 1-i || at != "127.0.0.1:6379" {
			t.Errorf("as %s: %d granted by %s", other, got, at)
		}
	}
	f.Prefix += "other:"
	limittest.Served(t, f.Called("redis").Limiter(t, limit), 10)
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

// share checks that two processes have one limit together.
func share(t *testing.T, one, two limittest.Fleet) {
	t.Helper()
	limit := shardlimit.Limit{Permits: 30, Per: time.Hour, Shards: 3}
	a, b := one.Limiter(t, limit), two.Limiter(t, limit)
	got := int64(0)
	for _, l := range []*shardlimit.Limiter{a, b, a, b} {
		d, err := l.AllowUpTo(t.Context(), 10)
		if err != nil {
			t.Fatalf("after %d: %v", got, err)
		}
		got += d.Granted
	}
	if got != 30 {
		t.Errorf("%d of 30 permits", got)
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
		calls, failed := 0, 0
		serve := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
				calls++
				if _, err := right.Allow(t.Context()); err != nil {
					failed++
				}
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
		if failed > 0 {
			t.Errorf("%d of %d calls of the process with the right names failed", failed, calls)
		}
	})
}

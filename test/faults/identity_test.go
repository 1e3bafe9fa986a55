package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A process calls the server of another one by another name, as by its address: it shares the
// limit.
func TestAServerUnderTwoNamesDoesNotGrantTwice(t *testing.T) {
	f := limittest.Standalone(t)
	limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
	first := limittest.Limiter(t, f.Called("127.0.0.1:6379").Client(t), "l", limit)
	if d, err := first.AllowN(t.Context(), 9); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	for i, other := range []string{"localhost:6379", "redis", "0.0.0.0:6379"} {
		l := limittest.Limiter(t, f.Called(other).Client(t), "l", limit)
		if d, err := l.Allow(t.Context()); err != nil || d.Allowed != (i == 0) {
			t.Errorf("as %s: %+v, %v", other, d, err)
		}
		if st := limittest.Peek(t, l); st.Shards[0].Node != "127.0.0.1:6379" {
			t.Errorf("as %s its shard is on %s", other, st.Shards[0].Node)
		}
	}
	other := f.Called("redis")
	other.Prefix += "other:"
	if d, err := limittest.Limiter(t, other.Client(t), "l", limit).AllowN(t.Context(), 10); err != nil || !d.Allowed {
		t.Errorf("under another prefix: %+v, %v", d, err)
	}
}

// One server is listed twice, by addresses that do not look alike. It is used once.
func TestAServerThatIsListedTwiceServesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 1)
		limit := shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 4}
		l := limittest.Limiter(t, f.With(f.Nodes[0], f.Nodes[0]).Called("a", "b").Client(t), "l", limit)
		got := limittest.Exhaust(t, l, 100)
		for _, names := range [][]string{{"b", "a"}, {"c", "d"}} {
			got += limittest.Exhaust(t, limittest.Limiter(t, f.With(f.Nodes[0], f.Nodes[0]).Called(names...).Client(t),
				"l", limit), 10)
		}
		if st := limittest.Peek(t, l); got != 100 || len(limittest.Hosts(st)) != 1 {
			t.Errorf("%d of 100 permits from %v", got, limittest.Hosts(st))
		}
	})
}

// A server forgot its name with everything else, and a process comes first that calls it otherwise.
// Both go on, and share what is there.
func TestANameThatAnotherProcessTookIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Shards: 1}
		older := limittest.Limiter(t, f.Called("older").Client(t), "l", limit)
		servers[0].Flush()
		newer := limittest.Limiter(t, f.Called("newer").Client(t), "l", limit)
		time.Sleep(5 * time.Minute)
		if got := limittest.Exhaust(t, newer, 6) + limittest.Exhaust(t, older, 10); got != 10 {
			t.Errorf("%d of 10 permits", got)
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

// A server goes on to take connections, and closes them before it has said anything. It is not
// connected anew and anew to ask for its name.
func TestAServerThatDropsConnectionsIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := limittest.Bubbled(t, 1)
		dial := f.Nodes[0].Redis.DialCtxFn
		var mu sync.Mutex
		var made []net.Conn
		var drops bool
		dials := 0
		f.Nodes[0].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
			cfg *tls.Config) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			dials++
			if !drops {
				conn, err := dial(ctx, addr, d, cfg)
				made = append(made, conn)
				return conn, err
			}
			if dials > 1000 {
				return nil, errors.New("enough") // or the time of the bubble would stand still
			}
			here, there := net.Pipe()
			_ = there.Close()
			return here, nil
		}
		l := limittest.Limiter(t, f.Client(t), "l", shardlimit.PerMinute(10))
		if _, err := l.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		mu.Lock()
		dials, drops = 0, true
		for _, conn := range made {
			_ = conn.Close()
		}
		mu.Unlock()
		for range 10 {
			_, _ = l.Allow(t.Context())
			time.Sleep(time.Second)
		}
		mu.Lock()
		defer mu.Unlock()
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
	a, b := limittest.Limiter(t, one.Client(t), "l", limit), limittest.Limiter(t, two.Client(t), "l", limit)
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
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 3)
		limit := shardlimit.Limit{Permits: 300, Per: time.Second, Shards: 3}
		right := limittest.Limiter(t, f.Client(t, limittest.TakesOver), "l", limit)
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
		for _, s := range servers {
			s.Restart()
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

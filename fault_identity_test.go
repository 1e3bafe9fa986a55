package shardlimit_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/shard"
)

// called is the fleet with other names for its nodes, in their order.
func (f fleet) called(names ...string) fleet {
	nodes := make([]shardlimit.Node, len(names))
	for i, name := range names {
		nodes[i] = f.nodes[i]
		nodes[i].Name = name
	}
	return f.with(nodes...)
}

// refused checks that the error says that a server has another name, and both names.
func refused(t *testing.T, err error, names ...string) {
	t.Helper()
	if !errors.Is(err, shardlimit.ErrNodeIdentity) {
		t.Fatalf("got %v", err)
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
}

// A process calls the server of another one by another name, as by its address: it does not get
// the limit once more.
func TestAServerUnderTwoNamesDoesNotGrantTwice(t *testing.T) {
	f := standalone(t)
	limit := shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1}
	name := "l"
	first := limiter(t, f.called("127.0.0.1:6379").client(t), name, limit)
	if d, err := first.AllowN(t.Context(), 10); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
	for _, other := range []string{"localhost:6379", "redis", "0.0.0.0:6379"} {
		c := f.called(other).client(t)
		l := limiter(t, c, name, limit)
		_, err := l.Allow(t.Context())
		refused(t, err, other, "127.0.0.1:6379")
		if !errors.Is(err, shardlimit.ErrUnavailable) || strings.Contains(err.Error(), "breaker") {
			t.Errorf("got %v", err)
		}
		open := f.called(other).client(t, func(cfg *shardlimit.Config) { cfg.OnOutage = shardlimit.FailOpen })
		if d, err := limiter(t, open, name, limit).Allow(t.Context()); err != nil || !d.Degraded {
			t.Errorf("the outage policy is not asked: %+v, %v", d, err)
		}
		if _, err := l.Peek(t.Context()); !errors.Is(err, shardlimit.ErrNodeIdentity) {
			t.Errorf("Peek: %v", err)
		}
	}
	if d, err := limiter(t, f.called("127.0.0.1:6379").client(t), name, limit).Allow(t.Context()); err != nil ||
		d.Allowed {
		t.Errorf("under the same name: %+v, %v", d, err)
	}
	other := f.called("redis")
	other.prefix += "other:"
	if d, err := limiter(t, other.client(t), name, limit).AllowN(t.Context(), 10); err != nil || !d.Allowed {
		t.Errorf("under another prefix: %+v, %v", d, err)
	}
}

// One server is listed twice, by addresses that do not look alike. It serves under one of the
// names.
func TestAServerThatIsListedTwiceServesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbled(t, 1)
		name := ""
		for i := 0; name == ""; i++ { // a limit whose record is not where nobody comes
			if try := fmt.Sprint("l",
				i); shard.Anchors("n:"+try, []shard.Node{{Name: "a"}, {Name: "b"}})[0].Node == "a" {
				name = try
			}
		}
		limiter(t, f.called("a").client(t), "other", shardlimit.PerSecond(1)) // so it is "a" for everybody
		twice := f.with(f.nodes[0], f.nodes[0]).called("a", "b")
		c := twice.client(t)
		l := limiter(t, c, name, shardlimit.Limit{Permits: 100, Per: time.Minute, Shards: 4})
		if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		st, err := l.Peek(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		away := 0
		for _, s := range st.Shards {
			if s.Err != nil {
				refused(t, s.Err, "a", "b")
				away++
			}
		}
		if away != 2 {
			t.Errorf("%d of 4 shards are away, want the two of the second name", away)
		}
		refused(t, c.SetNodes(t.Context(), f.with(f.nodes[0], f.nodes[0], f.nodes[0]).called("a", "b", "c").nodes), "c")
	})
}

func TestAConfigThatListsAServerTwiceIsRefused(t *testing.T) {
	f, servers := independent(t, 2)
	client := servers[0].Client(t)
	other := f.nodes[0]
	other.Redis.SelectDB = 1
	for name, c := range map[string]struct {
		nodes []shardlimit.Node
		valid bool
	}{
		"address":          {f.with(f.nodes[0], f.nodes[0]).called("a", "b").nodes, false},
		"client":           {[]shardlimit.Node{{Name: "a", Client: client}, {Name: "b", Client: client}}, false},
		"another":          {f.with(f.nodes[0], f.nodes[1]).called("a", "b").nodes, true},
		"another database": {f.with(f.nodes[0], other).called("a", "b").nodes, true},
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

// A name is kept as long as a process lists the server, used or not, and is free some time after.
func TestANameIsKeptWhileAProcessListsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbled(t, 1)
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Shards: 1}
		ask := func(c *shardlimit.Client, name string) error {
			_, err := limiter(t, c, name, limit).Allow(context.Background())
			return err
		}
		before, after := f.called("before").client(t), f.called("after").client(t)
		if err := ask(before, "l"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		refused(t, ask(after, "l"), "before", "after")
		before.Close()
		time.Sleep(5 * time.Minute)
		refused(t, ask(after, "l"), "before", "after")
		time.Sleep(6 * time.Minute)
		_ = ask(after, "m") // it tries to connect again
		time.Sleep(5 * time.Second)
		if err := ask(after, "m"); err != nil {
			t.Errorf("nobody uses the old name any more: %v", err)
		}
	})
}

// A server loses its name with everything else, and a process comes that calls it otherwise. Of
// the two one goes on.
func TestANameThatAnotherProcessTookIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, servers := bubbledServers(t, 1)
		limit := shardlimit.Limit{Permits: 10, Per: time.Second, Shards: 1}
		older := limiter(t, f.called("older").client(t), "l", limit)
		servers[0].Flush()
		newer := limiter(t, f.called("newer").client(t), "l", limit)
		time.Sleep(5 * time.Minute)
		if _, err := newer.Allow(t.Context()); err != nil {
			t.Error(err)
		}
		_, err := older.Allow(t.Context())
		refused(t, err, "older", "newer")
	})
}

// A server goes on to take connections, and closes them before it has said anything. It is not
// connected anew and anew to ask for its name.
func TestAServerThatTakesConnectionsAndDropsThemIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbled(t, 1)
		dial := f.nodes[0].Redis.DialCtxFn
		var mu sync.Mutex
		var made []net.Conn
		var drops bool
		dials := 0
		f.nodes[0].Redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
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
		l := limiter(t, f.client(t), "l", shardlimit.PerMinute(10))
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

// Whether the key of the name can be used is no condition for the limit.
func TestAServerThatCannotKeepItsNameIsUsed(t *testing.T) {
	f := standalone(t)
	admin := f.admin(t)
	command := func(args ...string) {
		t.Helper()
		if err := admin.Do(t.Context(), admin.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	key := f.prefix + "{node}:i"
	for name, spoil := range map[string]func() fleet{
		"holds something else": func() fleet {
			command("DEL", key)
			command("RPUSH", key, "x")
			return f
		},
		"is not permitted": func() fleet {
			command("ACL", "SETUSER", "limiter", "on", ">x", "+@all", "resetkeys",
				"~"+f.prefix+"{?}*", "~"+f.prefix+"{??}*", "~"+f.prefix+"{???}*") // the tags of shards and records
			node := f.nodes[0]
			node.Redis.Username, node.Redis.Password = "limiter", "x"
			return f.with(node)
		},
	} {
		l := limiter(t, spoil().client(t), name, shardlimit.PerMinute(10))
		if d, err := l.AllowN(t.Context(), 10); err != nil || !d.Allowed {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

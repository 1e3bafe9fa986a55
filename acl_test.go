package shardlimit_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// documented are the commands that an item of docs/operations.md names.
func documented(t *testing.T, item string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(text), item)
	list, _, more := strings.Cut(list, "\n- ")
	if !found || !more {
		t.Fatalf("no item %q", item)
	}
	for _, name := range regexp.MustCompile("`([A-Z]+)`").FindAllStringSubmatch(list, -1) {
		commands = append(commands, name[1])
	}
	return commands
}

// permit makes a user that may run only what is documented.
func permit(t *testing.T, c rueidis.Client, keys string, commands []string) {
	t.Helper()
	rules := []string{"SETUSER", "app", "reset", "on", ">secret", "~" + keys + "*", "-@all"}
	for _, name := range commands {
		rules = append(rules, "+"+strings.ToLower(name))
	}
	if err := c.Do(t.Context(), c.B().Arbitrary("ACL").Args(rules...).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// useAll makes calls of all kinds.
func useAll(t *testing.T, f fleet) {
	t.Helper()
	l := limiter(t, f.client(t), "l", shardlimit.Limit{Permits: 20, Per: shardlimit.PerHour(1).Per, Shards: 3})
	d, err := l.AllowN(t.Context(), 5)
	if err != nil || !d.Allowed || d.Degraded {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := l.Refund(t.Context(), d); err != nil {
		t.Error(err)
	}
	if _, err := l.AllowUpTo(t.Context(), 20); err != nil {
		t.Error(err)
	}
	for _, who := range []string{"ann", "bob"} {
		if d, err := l.As(who, 1).Allow(t.Context()); err != nil || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if st := peek(t, l); st.Used != 20 {
		t.Errorf("%+v", st)
	}
	users := keyed(t, f.client(t), "users", shardlimit.PerHour(5))
	for range 2 { // keys that are new share a state, and the next call finds it
		granted, errs := atOnce(t.Context(), users, 60)
		for i, err := range errs {
			if err != nil || granted[i] != 1 {
				t.Fatalf("key %d: %d granted, %v", i, granted[i], err)
			}
		}
	}
	if err := l.SetLimit(t.Context(),
		shardlimit.Limit{Permits: 30, Per: shardlimit.PerHour(1).Per, Shards: 2}); err != nil {
		t.Error(err)
	}
	if err := l.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	settled(t, l)
	if err := l.Delete(t.Context()); err != nil {
		t.Error(err)
	}
}

// The commands that the documentation names are all that a user needs.
func TestTheDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	commands := documented(t, "**ACL:**")
	as := func(o rueidis.ClientOption) rueidis.ClientOption {
		o = unhurried(o)
		o.Username, o.Password = "app", "secret"
		return o
	}
	t.Run("a database other than 0", func(t *testing.T) {
		t.Parallel()
		s, prefix := redistest.Standalone(t), redistest.Prefix(t)
		permit(t, s.Client(t), prefix, commands)
		o := as(s.ClientOption())
		o.SelectDB = 3
		useAll(t, fleet{nodes: []shardlimit.Node{{Name: "n", Redis: o}}, prefix: prefix})
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		set, prefix := redistest.NewSentinel(t, 1), redistest.Prefix(t)
		for _, s := range set.Servers() {
			permit(t, s.Client(t), prefix, commands)
		}
		watcher, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: set.Addrs(), ForceSingleClient: true, DisableCache: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		permit(t, watcher, "none", documented(t, "**ACL of sentinels:**"))
		if err := watcher.Do(t.Context(),
			watcher.B().Arbitrary("ACL").Args("SETUSER", "app", "&*").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		o := as(set.ClientOption())
		o.Sentinel.Username, o.Sentinel.Password = "app", "secret"
		useAll(t, fleet{nodes: []shardlimit.Node{{Name: "n", Redis: o}}, prefix: prefix})
	})
	t.Run("a cluster with a slot on its way", func(t *testing.T) {
		f, cluster := clustered(t, 0)
		for _, s := range cluster.Servers() {
			permit(t, s.Client(t), f.prefix, commands)
		}
		f.nodes[0].Redis = as(f.nodes[0].Redis)
		useAll(t, f)
		l := limiter(t, f.client(t), "moved", shardlimit.Limit{Permits: 20, Per: shardlimit.PerHour(1).Per, Shards: 3})
		migrations := begin(cluster, peek(t, l))
		for range 10 {
			if d, err := l.Allow(t.Context()); err != nil || !d.Allowed {
				t.Fatalf("%+v, %v", d, err)
			}
		}
		for _, m := range migrations {
			m.Finish()
		}
	})
}

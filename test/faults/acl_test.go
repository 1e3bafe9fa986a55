package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// documentedUser are the rules of a user that docs/howto/secure.md gives in a block, that of the
// servers or that of the sentinels, with other names in it.
func documentedUser(t *testing.T, block int, prefix string) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```")
	if len(blocks) < 2*block {
		t.Fatalf("there are only %d blocks", len(blocks)/2)
	}
	rules := strings.Fields(blocks[2*block-1])
	for i, rule := range rules {
		switch rule {
		case "limiter":
			rules[i] = "app"
		case ">PASSWORD":
			rules[i] = ">secret"
		case "~sl:*":
			rules[i] = "~" + prefix + "*"
		}
	}
	if len(rules) < 5 || rules[0] != "ACL" {
		t.Fatalf("block %d is %q", block, rules)
	}
	return rules[1:] // SETUSER ...
}

// besides are the permissions that the table of docs/howto/secure.md adds for a place.
func besides(t *testing.T, place string) (rules []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| `+") || !strings.Contains(line, place) {
			continue
		}
		rules = append(rules, strings.Fields(strings.ReplaceAll(strings.Split(line, "`")[1], `\|`, "|"))...)
	}
	if len(rules) == 0 {
		t.Fatalf("nothing about %s", place)
	}
	return rules
}

// permit makes a user that may do only what is documented for a place.
func permit(t *testing.T, s *redistest.Server, prefix, place string) {
	t.Helper()
	s.Do(t, append([]string{"ACL"}, append(documentedUser(t, 1, prefix), besides(t, place)...)...)...)
}

// called adds the commands that the user has called on a server, within scripts or not.
func called(t *testing.T, s *redistest.Server, all map[string]bool) {
	t.Helper()
	for line := range strings.Lines(s.Do(t, "INFO", "commandstats")) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		all[strings.ToLower(name)] = true
	}
}

// inScripts reports whether a script names the command: some are called in rare moments only.
func inScripts(t *testing.T, command string) bool {
	t.Helper()
	files, err := filepath.Glob("../../script/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "'"+strings.ToUpper(command)+"'") {
			return true
		}
	}
	return false
}

// useAll makes calls of all kinds.
func useAll(t *testing.T, f limittest.Fleet) {
	t.Helper()
	useEveryAlgorithm(t, f)
	l := f.Limiter(t, shardlimit.Limit{Permits: 20, Per: shardlimit.PerHour(1).Per, Shards: 3})
	d := limittest.Served(t, l, 5)
	limittest.Must(t, l.Settle(t.Context(), d, 0))
	if _, err := l.AllowUpTo(t.Context(), 20); err != nil {
		t.Error(err)
	}
	for _, who := range []string{"ann", "bob"} {
		if d, err := l.As(who, 1).Allow(t.Context()); err != nil || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if st := limittest.Peek(t, l); st.Used != 20 {
		t.Errorf("%+v", st)
	}
	users := f.Family(t, shardlimit.PerHour(5))
	for range 2 { // keys that are new share a state, and the next call finds it
		granted, errs := limittest.AtOnce(t.Context(), users, 0, 60)
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
	limittest.Must(t, l.Reset(t.Context()))
	limittest.Settled(t, l)
	limittest.Must(t, l.Delete(t.Context()))
}

// useEveryAlgorithm takes, books and gives back under each of them.
func useEveryAlgorithm(t *testing.T, f limittest.Fleet) {
	t.Helper()
	c := f.Client(t)
	for _, algorithm := range []shardlimit.Algorithm{shardlimit.SlidingLog, shardlimit.SlidingCounter,
		shardlimit.FixedWindow, shardlimit.TokenBucket, shardlimit.LeakyBucket} {
		l := limittest.Limiter(t, c, algorithm.String(), shardlimit.Limit{Permits: 20, Per: shardlimit.PerHour(1).Per,
			Algorithm: algorithm, Shards: 1})
		d := limittest.MustGet(t, l, 10)
		if err := l.Settle(t.Context(), d, 0); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		if _, err := l.AllowUpTo(t.Context(), 20); err != nil {
			t.Errorf("%s: %v", algorithm, err)
		}
		r, err := l.Reserve(t.Context(), 1)
		switch {
		case errors.Is(err, shardlimit.ErrTooFarAhead): // a queue without room says so after the call
		case err != nil:
			t.Errorf("%s: %v", algorithm, err)
		default:
			if err := r.Cancel(t.Context()); err != nil {
				t.Errorf("%s: %v", algorithm, err)
			}
		}
	}
}

func as(o rueidis.ClientOption) rueidis.ClientOption {
	o = limittest.Unhurried(o)
	o.Username, o.Password = "app", "secret"
	return o
}

// The documented permissions of a user suffice, and each of them is needed.
func TestTheDocumentedPermissionsSuffice(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	used := map[string]bool{}
	use := func(t *testing.T, servers ...*redistest.Server) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range servers {
			called(t, s, used)
		}
	}
	t.Run("all", func(t *testing.T) {
		t.Run("a database other than 0", func(t *testing.T) {
			t.Parallel()
			s, prefix := redistest.Standalone(t), redistest.Prefix(t)
			permit(t, s, prefix, "database")
			o := as(s.ClientOption())
			o.SelectDB = 3
			useAll(t, limittest.Fleet{Nodes: []shardlimit.Node{{Name: "n", Redis: o}}, Prefix: prefix})
			use(t, s)
		})
		t.Run("Sentinel", func(t *testing.T) {
			t.Parallel()
			set, prefix := redistest.NewSentinel(t, 1), redistest.Prefix(t)
			for _, s := range set.Servers() {
				permit(t, s, prefix, "Sentinel")
			}
			set.Do(t, append([]string{"ACL"}, documentedUser(t, 2, "")...)...)
			o := as(set.ClientOption())
			o.Sentinel.Username, o.Sentinel.Password = "app", "secret"
			useAll(t, limittest.Fleet{Nodes: []shardlimit.Node{{Name: "n", Redis: o}}, Prefix: prefix})
		})
		t.Run("a cluster with a slot on its way", func(t *testing.T) {
			f, cluster := limittest.Clustered(t, 0)
			for _, s := range cluster.Servers() {
				permit(t, s, f.Prefix, "cluster")
			}
			f.Nodes[0].Redis = as(f.Nodes[0].Redis)
			useAll(t, f)
			l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(time.Second)), "moved",
				shardlimit.Limit{Permits: 20, Per: shardlimit.PerHour(1).Per, Shards: 3})
			migrations := limittest.BeginMigrations(cluster, limittest.Peek(t, l))
			d, err := l.Allow(t.Context()) // until its time is up
			if err != nil && !strings.Contains(err.Error(), "TRYAGAIN") && !errors.Is(err, shardlimit.ErrUnavailable) {
				t.Errorf("%+v, %v", d, err)
			}
			for _, m := range migrations {
				m.Finish()
			}
			use(t, cluster.Servers()...)
		})
	})
	if len(used) == 0 {
		t.Skip("needs a redis-server on the PATH")
	}
	for _, rule := range documentedUser(t, 1, "") {
		name, ok := strings.CutPrefix(rule, "+")
		if ok && !used[name] && !inScripts(t, name) {
			t.Errorf("nobody calls %s", name)
		}
	}
}

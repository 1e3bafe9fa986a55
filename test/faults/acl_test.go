package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// secure is docs/howto/secure.md.
func secure(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/howto/secure.md")
	limittest.Must(t, err)
	return string(text)
}

// documentedUser are the rules of a user that docs/howto/secure.md gives in a block, that of the
// servers or that of the sentinels, with other names in it.
func documentedUser(t *testing.T, block int, prefix string) []string {
	t.Helper()
	blocks := strings.Split(secure(t), "```")
	if len(blocks) < 2*block {
		t.Fatalf("there are only %d blocks", len(blocks)/2)
	}
	names := strings.NewReplacer("limiter", "app", ">PASSWORD", ">secret", "~sl:*", "~"+prefix+"*")
	rules := strings.Fields(names.Replace(blocks[2*block-1]))
	if len(rules) < 5 || rules[0] != "ACL" {
		t.Fatalf("block %d is %q", block, rules)
	}
	return rules[1:] // SETUSER ...
}

// besides are the permissions that the table of docs/howto/secure.md adds for a place.
func besides(t *testing.T, place string) (rules []string) {
	t.Helper()
	for line := range strings.Lines(secure(t)) {
		if strings.HasPrefix(line, "| `+") && strings.Contains(line, place) {
			rules = append(rules, strings.Fields(strings.ReplaceAll(strings.Split(line, "`")[1], `\|`, "|"))...)
		}
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
		limittest.Must(t, err)
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
	l := f.Limiter(t, shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 3})
	limittest.Must(t, l.Settle(t.Context(), limittest.Served(t, l, 5), 0))
	limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), 20)))
	for _, who := range []string{"ann", "bob"} {
		if d, err := l.As(who, 1).Allow(t.Context()); err != nil || d.Degraded {
			t.Errorf("%+v, %v", d, err)
		}
	}
	limittest.Uses(t, l, 20)
	users := f.Family(t, shardlimit.PerHour(5))
	for range 2 { // keys that are new share a state, and the next call finds it
		granted, errs := limittest.AtOnce(t.Context(), users, 0, 60)
		for i, err := range errs {
			if err != nil || granted[i] != 1 {
				t.Fatalf("key %d: %d granted, %v", i, granted[i], err)
			}
		}
	}
	limittest.Must(t, l.SetLimit(t.Context(), shardlimit.Limit{Permits: 30, Per: time.Hour, Shards: 2}))
	limittest.Must(t, l.Reset(t.Context()))
	limittest.Settled(t, l)
	limittest.Must(t, l.Delete(t.Context()))
}

// useEveryAlgorithm takes, books and gives back under each of them.
func useEveryAlgorithm(t *testing.T, f limittest.Fleet) {
	t.Helper()
	c := f.Client(t)
	for _, algorithm := range limittest.Algorithms {
		l := limittest.Limiter(t, c, algorithm.String(), shardlimit.Limit{Permits: 20, Per: time.Hour,
			Algorithm: algorithm, Shards: 1})
		limittest.Must(t, l.Settle(t.Context(), limittest.MustGet(t, l, 10), 0))
		limittest.Must(t, limittest.Err(l.AllowUpTo(t.Context(), 20)))
		r, err := l.Reserve(t.Context(), 1)
		if !errors.Is(err, shardlimit.ErrTooFarAhead) { // a queue without room says so after the call
			limittest.Must(t, err)
			limittest.Must(t, r.Cancel(t.Context()))
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
	used := map[string]bool{}
	t.Run("a database other than 0", func(t *testing.T) {
		s := redistest.Standalone(t)
		f := alone(t, as(s.ClientOption()))
		f.Nodes[0].Redis.SelectDB = 3
		permit(t, s, f.Prefix, "database")
		useAll(t, f)
		called(t, s, used)
	})
	t.Run("Sentinel", func(t *testing.T) {
		set := redistest.NewSentinel(t, 1)
		o := as(set.ClientOption())
		o.Sentinel.Username, o.Sentinel.Password = "app", "secret"
		f := alone(t, o)
		for _, s := range set.Servers() {
			permit(t, s, f.Prefix, "Sentinel")
		}
		set.Do(t, append([]string{"ACL"}, documentedUser(t, 2, "")...)...)
		useAll(t, f)
	})
	t.Run("a cluster with a slot on its way", func(t *testing.T) {
		f, cluster := limittest.Clustered(t, 0)
		for _, s := range cluster.Servers() {
			permit(t, s, f.Prefix, "cluster")
		}
		f.Nodes[0].Redis = as(f.Nodes[0].Redis)
		useAll(t, f)
		l := limittest.Limiter(t, f.Client(t, limittest.PatientFor(time.Second)), "moved",
			shardlimit.Limit{Permits: 20, Per: time.Hour, Shards: 3})
		migrations := limittest.BeginMigrations(cluster, limittest.Peek(t, l))
		d, err := l.Allow(t.Context()) // until its time is up
		if err != nil && !strings.Contains(err.Error(), "TRYAGAIN") && !errors.Is(err, shardlimit.ErrUnavailable) {
			t.Errorf("%+v, %v", d, err)
		}
		for _, m := range migrations {
			m.Finish()
		}
		for _, s := range cluster.Servers() {
			called(t, s, used)
		}
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

package limittest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// SumOn is what the shards that answer have, but for those on a node.
func SumOn(st shardlimit.State, without string) (sum int64) {
	for _, s := range st.Shards {
		if s.Node != without && s.Err == nil {
			sum += s.Share
		}
	}
	return sum
}

// Hosts are the nodes that the shards of a settled state are on.
func Hosts(st shardlimit.State) (names []string) {
	for _, s := range st.Shards {
		if !slices.Contains(names, s.Node) {
			names = append(names, s.Node)
		}
	}
	slices.Sort(names)
	return names
}

// Peek is the state of a limiter whose every shard answers.
func Peek(tb testing.TB, l *shardlimit.Limiter) shardlimit.State {
	tb.Helper()
	var st shardlimit.State
	AwaitThat(tb, "every shard answers", func() bool { // on a busy machine one may take too long
		var err error
		st, err = l.Peek(tb.Context())
		return err == nil && !slices.ContainsFunc(st.Shards, func(s shardlimit.ShardState) bool { return s.Err != nil })
	})
	return st
}

// Uses fails the test unless so many permits are in use.
func Uses(tb testing.TB, l *shardlimit.Limiter, want int64) {
	tb.Helper()
	if used := Peek(tb, l).Used; used != want {
		tb.Errorf("%s: %d permits are used, want %d", l.Name(), used, want)
	}
}

// ShardOn is the shard that a node holds; the test fails unless it is one.
func ShardOn(tb testing.TB, st shardlimit.State, node string) (found shardlimit.ShardState) {
	tb.Helper()
	count := 0
	for _, s := range st.Shards {
		if s.Node == node {
			found = s
			count++
		}
	}
	if count != 1 {
		tb.Fatalf("%d shards on %s, want 1: %+v", count, node, st.Shards)
	}
	return found
}

// Settled waits until the limiter has a layout of its own: while no majority of the places of its
// record answers in time, a limit is not declared.
func Settled(tb testing.TB, l *shardlimit.Limiter) {
	tb.Helper()
	AwaitThat(tb, "the limit is declared", func() bool {
		st, err := l.Peek(tb.Context())
		return err == nil && st.Settled
	})
}

// AwaitOneLayout waits until all processes work with one layout and its capacity has arrived.
func AwaitOneLayout(tb testing.TB, limiters []*shardlimit.Limiter) shardlimit.State {
	tb.Helper()
	var first shardlimit.State
	AwaitThat(tb, "one settled layout everywhere", func() bool {
		for i, l := range limiters {
			st, err := l.Peek(context.Background())
			if err != nil || !st.Settled {
				return false
			}
			if i == 0 {
				first = st
			}
			if st.Epoch != first.Epoch || st.Limit != first.Limit || l.Limit() != first.Limit {
				return false
			}
		}
		return true
	})
	return first
}

// SharesSumTo fails the test unless the shares that are wanted, and those in
// force, sum to the limit, each at least one permit.
func SharesSumTo(t testing.TB, l *shardlimit.Limiter, permits int64) shardlimit.State {
	t.Helper()
	st := Peek(t, l)
	var target, share int64
	for _, s := range st.Shards {
		target, share = target+s.Target, share+s.Share
		if s.Target < 1 {
			t.Errorf("shard %+v", s)
		}
	}
	if target != permits || share != permits || st.Limit.Permits != permits {
		t.Errorf("%d permits over %d shards: targets sum to %d, shares to %d, the limit is %s", permits, len(st.Shards),
			target, share, st.Limit)
	}
	return st
}

// HomesOfKeys are the nodes that keys have their shards on.
func HomesOfKeys(t *testing.T, f *shardlimit.Family) (names []string) {
	t.Helper()
	for k := range 30 {
		for _, s := range Peek(t, f.Limiter(fmt.Sprint("user ", k))).Shards {
			if s.Target > 0 && !slices.Contains(names, s.Node) {
				names = append(names, s.Node)
			}
		}
	}
	slices.Sort(names)
	return names
}

// StateText is for what failed.
func StateText(a ...any) string { return fmt.Sprintf("%+v", a) }

// KeysUnder returns every key of a server that has the prefix.
func KeysUnder(tb testing.TB, c rueidis.Client, prefix string) (keys []string) {
	tb.Helper()
	for cursor := uint64(0); ; {
		page, err := c.Do(context.Background(),
			c.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			tb.Fatal(err)
		}
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return keys
		}
	}
}

// BeginMigrations has the slots of all shards of the limit on their way to the next master.
func BeginMigrations(cluster *redistest.Cluster, st shardlimit.State) (all []*redistest.Migration) {
	for _, s := range st.Shards {
		all = append(all, cluster.BeginMigration(s.Slot, s.Slot, (s.Slot*3/16384+1)%3))
	}
	return all
}

// IsOfARecord matches the keys of records, of who uses them, and the pointer that tells where they
// are.
func IsOfARecord(key string) bool {
	return strings.Contains(key, "}:m:") || strings.Contains(key, "}:p:") || strings.HasSuffix(key, "}:p")
}

package shardlimit_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/redissim"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// snapshot is the records of limits on a server, as they were at one time.
type snapshot struct{ redissim.Image }

func isRecord(key string) bool { return strings.Contains(key, "}:m:") }

// isLayout matches the keys of the records of limits and families.
func isLayout(key string) bool { return isRecord(key) && strings.Contains(key, ":limit:") }

// placeHead is the length of what a place of a record has before the names of its run and of its
// mark: see script/vote.lua.
const placeHead = 105

// layoutAt is the layout that a place of a record has accepted, as it is stored.
func layoutAt(t *testing.T, place string) string {
	t.Helper()
	head, value := splitPlace(t, place)
	if value == "" || value[0] != 'v' {
		t.Fatalf("no layout: %q after %q", value, head)
	}
	return value[1:]
}

// withLayout is a place of a record that has accepted another layout, and is else as it was.
func withLayout(t *testing.T, place, layout string) string {
	t.Helper()
	head, _ := splitPlace(t, place)
	return head + "v" + layout
}

func splitPlace(t *testing.T, place string) (head, value string) {
	t.Helper()
	if len(place) < placeHead {
		t.Fatalf("not a place of a record: %q", place)
	}
	n := placeHead
	for _, digits := range []string{place[placeHead-6 : placeHead-3], place[placeHead-3 : placeHead]} {
		length, err := strconv.Atoi(digits)
		if err != nil || n+length > len(place) {
			t.Fatalf("not a place of a record: %q", place)
		}
		n += length
	}
	return place[:n], place[n:]
}

// recordsOn takes a snapshot of a server's records.
func recordsOn(t *testing.T, m *redissim.Server) snapshot {
	t.Helper()
	taken := snapshot{m.Save(isRecord)}
	if len(taken.Image) == 0 {
		t.Fatal("there are no records on the server")
	}
	return taken
}

// restore puts a server's records back to a snapshot; the rest stays as it is.
func (s snapshot) restore(m *redissim.Server) { m.Load(s.Image, isRecord) }

// scriptCalls is how many scripts a server has run.
func scriptCalls(tb testing.TB, c rueidis.Client) (calls int64) {
	tb.Helper()
	info, err := c.Do(context.Background(), c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(info) {
		for _, command := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls="} {
			if rest, ok := strings.CutPrefix(line, command); ok {
				number, _, _ := strings.Cut(rest, ",")
				n, err := strconv.ParseInt(number, 10, 64)
				if err != nil {
					tb.Fatal(err)
				}
				calls += n
			}
		}
	}
	return calls
}

// keysUnder returns every key of a server that has the prefix.
func keysUnder(tb testing.TB, c rueidis.Client, prefix string) (keys []string) {
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

// homes are the nodes that keys have their shards on.
func homes(t *testing.T, f *shardlimit.Family) (names []string) {
	t.Helper()
	for k := range 30 {
		for _, s := range peek(t, f.Limiter(fmt.Sprint("user ", k))).Shards {
			if s.Target > 0 && !slices.Contains(names, s.Node) {
				names = append(names, s.Node)
			}
		}
	}
	slices.Sort(names)
	return names
}

// begin has the slots of all shards of the limit on their way to the next master.
func begin(cluster *redistest.Cluster, st shardlimit.State) (all []*redistest.Migration) {
	for _, s := range st.Shards {
		all = append(all, cluster.BeginMigration(s.Slot, s.Slot, (s.Slot*3/16384+1)%3))
	}
	return all
}

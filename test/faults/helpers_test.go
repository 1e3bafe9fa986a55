package faults

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/limittest/redissim"
)

// awaitAllShards waits until every shard of a limit in use has granted something
// in the running window.
func awaitAllShards(t *testing.T, l *shardlimit.Limiter) {
	t.Helper()
	limittest.AwaitThat(t, "every shard serves", func() bool {
		st, err := l.Peek(context.Background())
		return err == nil && !slices.ContainsFunc(st.Shards, func(s shardlimit.ShardState) bool {
			return s.Err != nil || s.Used == 0
		})
	})
}

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

// bubbledServers is limittest.Bubbled with the servers of the nodes.
func bubbledServers(t *testing.T, nodes int) (limittest.Fleet, []*redissim.Server) {
	t.Helper()
	f, made := limittest.BubbledNodes(t, nodes)
	var servers []*redissim.Server
	for _, n := range made {
		servers = append(servers, n.Redis)
	}
	return f, servers
}

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

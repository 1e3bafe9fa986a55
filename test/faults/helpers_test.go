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

func TestMain(m *testing.M) { os.Exit(limittest.Main(m)) }

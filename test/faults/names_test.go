package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

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

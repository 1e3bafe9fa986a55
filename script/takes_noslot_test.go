package script

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// A slot that no server of the cluster has fails alone: the shards of other slots are taken from.
func TestASlotWithoutAServerHarmsNoOther(t *testing.T) {
	cluster := redistest.NewCluster(t, 3, 0, redistest.Args("--cluster-require-full-coverage", "no"))
	endpoint := NewEndpoint(cluster.Client(t))
	var sections []Section
	for i := range 12 {
		s := taking(t, AlgorithmSlidingLog, "limit")
		s.Ref = ShardKeys("", fmt.Sprint("tag ", i), "limit")
		sections = append(sections, s)
	}
	if err := endpoint.TakeAll(t.Context(), sections); err != nil {
		t.Fatal(err)
	}
	for _, m := range cluster.Masters() {
		c := m.Client(t)
		slot, err := c.Do(t.Context(), c.B().ClusterKeyslot().Key(sections[0].Ref.keys()[0]).Build()).AsInt64()
		if err == nil {
			err = c.Do(t.Context(), c.B().ClusterDelslots().Slot(slot).Build()).Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	endpoint = NewEndpoint(cluster.Client(t)) // which never saw a server that had the slot
	good := 0                                 // rounds on end: servers hear of it one after the other
	for round := 0; good < 3; round++ {
		if err := endpoint.TakeAll(t.Context(), sections); err != nil {
			t.Fatal(err)
		}
		good++
		for i, s := range sections {
			if errors.Is(s.Err, rueidis.ErrNoSlot) != (i == 0) {
				if good = 0; round > 2000 {
					t.Fatalf("shard %d: %v", i, s.Err)
				}
			}
		}
	}
}

package faults

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Keys move off a node that drains, and the clock of another node that keeps the record steps
// ahead. Keys that never were on that node have no more than their limit.
func TestStepElsewhereFreesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := limittest.BubbledNodes(t, 4)
		fl.Punctual = true
		client := fl.Client(t)
		users := limittest.Family(t, client, "users", shardlimit.Limit{Permits: 10, Per: 30 * time.Second})
		place := fl.Index(limittest.RecordNodes(client)[0])
		name := func(i int) string { return fmt.Sprint("user ", i) }
		time.Sleep(5 * time.Minute) // their memory is whole
		before := map[int]string{}
		for i := range 40 {
			if got := limittest.Exhaust(t, users.Limiter(name(i)), 10); got != 10 {
				t.Fatalf("%d permits", got)
			}
			before[i] = limittest.Peek(t, users.Limiter(name(i))).Shards[0].Node
		}
		gone := (place + 1) % 4
		client.Close()
		client = fl.With(limittest.Drained(fl.Nodes, func(i int) bool { return i == gone })...).Client(t)
		users = limittest.Family(t, client, "users", users.Limit())
		if err := users.Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
		nodes[place].Redis.Step(3 * time.Minute)
		for range 10 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
		users = limittest.Family(t, fl.Client(t), "users", users.Limit()) // of a process that remembers no denial
		for i := range 40 {
			if was := before[i]; was == fl.Nodes[gone].Name {
				got := limittest.Exhaust(t, users.Limiter(name(i)), 10)
				if now := limittest.Peek(t, users.Limiter(name(i))).Shards[0].Node; got > 0 &&
					now != fl.Nodes[place].Name {
					t.Errorf("%s, from %s to %s, had %d of 10 permits in 15 s", name(i), was, now, 10+got)
				}
			}
		}
	})
}

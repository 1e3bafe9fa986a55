package shardlimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Keys move off a node that drains, and the clock of another node that keeps the record steps
// ahead. Keys that never were on that node have no more than their limit.
func TestStepElsewhereFreesNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl, nodes := bubbledNodes(t, 4)
		fl.punctual = true
		client := fl.client(t)
		users := keyed(t, client, "users", shardlimit.Limit{Permits: 10, Per: 30 * time.Second})
		place := fl.index(client.RecordNodes()[0])
		name := func(i int) string { return fmt.Sprint("user ", i) }
		time.Sleep(5 * time.Minute) // their memory is whole
		before := map[int]string{}
		for i := range 40 {
			if got := all(t, users.Limiter(name(i)), 10); got != 10 {
				t.Fatalf("%d permits", got)
			}
			before[i] = peek(t, users.Limiter(name(i))).Shards[0].Node
		}
		gone := (place + 1) % 4
		client.Close()
		client = fl.with(drained(fl.nodes, func(i int) bool { return i == gone })...).client(t)
		users = keyed(t, client, "users", users.Limit())
		if err := users.Rebalance(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
		nodes[place].redis.Step(3 * time.Minute)
		for range 10 {
			time.Sleep(time.Second)
			_, _ = users.Limiter("other").Allow(t.Context())
		}
		users = keyed(t, fl.client(t), "users", users.Limit()) // of a process that remembers no denial
		for i := range 40 {
			if was := before[i]; was == fl.nodes[gone].Name {
				got := all(t, users.Limiter(name(i)), 10)
				if now := peek(t, users.Limiter(name(i))).Shards[0].Node; got > 0 && now != fl.nodes[place].Name {
					t.Errorf("%s, from %s to %s, had %d of 10 permits in 15 s", name(i), was, now, 10+got)
				}
			}
		}
	})
}

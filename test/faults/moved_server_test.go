package faults

import (
	"fmt"
	"net"
	"regexp"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// What deploy-redis.md says of a move to another server: replicate, pause the writes of the old
// one, wait for its offset, promote, and restart the processes with the new address. What was
// granted there counts here, and the rest is to be had.
func TestAServerIsMovedByReplication(t *testing.T) {
	t.Parallel()
	servers := redistest.Servers(t, 2)
	from, to := servers[0].Client(t), servers[1].Client(t)
	f := limittest.Fleet{Prefix: redistest.Prefix(t)}
	limit := shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 1}
	got := map[string]int64{}
	take := func(s *redistest.Server, n int64) {
		c := f.With(shardlimit.Node{Name: "n", Redis: limittest.Unhurried(s.ClientOption())}).Client(t)
		users := limittest.Family(t, c, "users", limit)
		limiters := []*shardlimit.Limiter{limittest.Limiter(t, c, "l", limit)}
		for i := range 20 {
			limiters = append(limiters, users.Limiter(fmt.Sprint("user ", i)))
		}
		for _, l := range limiters {
			d, err := l.AllowUpTo(t.Context(), n)
			if err != nil || d.Degraded {
				t.Fatalf("%s: %+v, %v", l.Name(), d, err)
			}
			got[l.Name()] += d.Granted
		}
		c.Close()
	}
	do := func(c rueidis.Client, command ...string) string {
		said, err := c.Do(t.Context(), c.B().Arbitrary(command...).Build()).ToString()
		if err != nil {
			t.Fatalf("%v: %v", command, err)
		}
		return said
	}
	offset := func(c rueidis.Client, field string) string {
		return regexp.MustCompile(field + `:(\d+)`).FindString(do(c, "INFO", "replication"))[len(field):]
	}
	take(servers[0], 40)
	host, port, err := net.SplitHostPort(servers[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	do(to, "REPLICAOF", host, port)
	limittest.AwaitThat(t, "it is a replica", func() bool {
		return regexp.MustCompile("master_link_status:up").MatchString(do(to, "INFO", "replication"))
	})
	take(servers[0], 10)
	do(from, "CLIENT", "PAUSE", "30000", "WRITE")
	limittest.AwaitThat(t, "it has the last grants", func() bool {
		return offset(from, "master_repl_offset") == offset(to, "slave_repl_offset")
	})
	do(to, "REPLICAOF", "NO", "ONE")
	take(servers[1], limit.Permits)
	for name, n := range got {
		if n != limit.Permits {
			t.Errorf("%s: %d of %d permits", name, n, limit.Permits)
		}
	}
}

//go:build unix

package redistest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
)

func TestCluster(t *testing.T) {
	c := NewCluster(t, 3, 1)
	client := c.Client(t)
	const keys = 600
	for i := range keys {
		set(t, client, fmt.Sprintf("key-%d", i), fmt.Sprint(i))
	}
	check := func(t *testing.T) {
		t.Helper()
		fresh := c.Client(t)
		for i := range keys {
			if got := get(t, fresh, fmt.Sprintf("key-%d", i)); got != fmt.Sprint(i) {
				t.Fatalf("key-%d is %q", i, got)
			}
		}
	}
	// In this order: each step leaves a cluster that the next one uses.
	t.Run("migrate", func(t *testing.T) { testMigrate(t, c); check(t) })
	t.Run("ask", func(t *testing.T) { testAsk(t, c); check(t) })
	t.Run("planned failover", func(t *testing.T) {
		old := c.Masters()[0]
		c.Failover(0)
		if now := c.Masters()[0]; now == old || c.Replicas(0)[0] != old {
			t.Errorf("master was %s, is %s", old.Addr(), now.Addr())
		}
		check(t)
	})
	t.Run("failover of a paused master", func(t *testing.T) {
		old := c.Masters()[1]
		old.Pause()
		c.Failover(1)
		if now := c.Masters()[1]; now == old {
			t.Errorf("%s is still the master", old.Addr())
		}
		old.Resume()
		c.AwaitSettled()
		check(t)
	})
	t.Run("kill a master", func(t *testing.T) {
		old := c.Masters()[2]
		old.Kill()
		c.Failover(2)
		if now := c.Masters()[2]; now == old {
			t.Errorf("%s is still the master", old.Addr())
		}
		old.Restart()
		c.AwaitSettled()
		check(t)
	})
}

// owner tells which server says that a key's slot is its own.
func owner(t *testing.T, c *Cluster, key string) *Server {
	t.Helper()
	for _, m := range c.Masters() {
		client := m.Client(t)
		if err := client.Do(t.Context(), client.B().Exists().Key(key).Build()).Error(); err == nil {
			return m
		} else if !strings.HasPrefix(err.Error(), "MOVED") && !strings.HasPrefix(err.Error(), "ASK") {
			t.Fatal(err)
		}
	}
	t.Fatalf("nobody owns %q", key)
	return nil
}

func slotOf(t *testing.T, c *Cluster, key string) int {
	t.Helper()
	client := c.Servers()[0].Client(t)
	slot, err := client.Do(t.Context(), client.B().ClusterKeyslot().Key(key).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return int(slot)
}

// testMigrate moves 600 slots, more than go at once, and one with many keys.
func testMigrate(t *testing.T, c *Cluster) {
	client := c.Client(t)
	for i := range 2*keysAtOnce + 1 {
		set(t, client, fmt.Sprintf("{full}%d", i), "x")
	}
	full := slotOf(t, c, "{full}")
	for _, to := range []int{2, 0} {
		c.Migrate(5000, 5599, to) // across the border of masters 0 and 1
		c.Migrate(full, full, to)
		m := c.Masters()[to]
		if got := owner(t, c, "{full}7"); got != m {
			t.Errorf("{full} is at %s, want %s", got.Addr(), m.Addr())
		}
		v, err := m.view(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		owners := v.owners()
		for slot := 5000; slot <= 5599; slot++ {
			if owners[slot] != c.ids[m] {
				t.Fatalf("slot %d was not moved to master %d", slot, to)
			}
		}
		count, err := m.do(t.Context(), "CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(full))
		if n, _ := count.AsInt64(); err != nil || n != 2*keysAtOnce+1 {
			t.Errorf("slot of {full} has %d keys at its new master, %v", n, err)
		}
	}
}

func testAsk(t *testing.T, c *Cluster) {
	const key = "{ask}key"
	set(t, c.Client(t), key, "here")
	from, slot := owner(t, c, key), slotOf(t, c, key)
	to := 0
	if c.Masters()[0] == from {
		to = 1
	}
	direct := from.Client(t)
	asked := func() bool {
		err := direct.Do(t.Context(), direct.B().Get().Key(key).Build()).Error()
		redirected, isRedis := rueidis.IsRedisErr(err)
		if !isRedis {
			return false
		}
		_, ask := redirected.IsAsk()
		return ask
	}
	m := c.BeginMigration(slot, slot, to)
	if asked() {
		t.Error("ASK for a key that has not moved")
	}
	m.MoveKeys()
	if !asked() {
		t.Error("no ASK for a key that has moved")
	}
	if got := get(t, c.Client(t), key); got != "here" {
		t.Errorf("in the middle the key is %q", got)
	}
	m.Finish()
	if got := owner(t, c, key); got != c.Masters()[to] {
		t.Errorf("slot is at %s", got.Addr())
	}
}

func TestParseView(t *testing.T) {
	v, err := parseView("aa 127.0.0.1:1@2,host myself,master - 0 0 7 connected 0-5 9 [10->-bb]\n" +
		"bb 127.0.0.1:3@4 slave,fail? aa 0 0 3 disconnected\n")
	if err != nil {
		t.Fatal(err)
	}
	a, b := v["aa"], v["bb"]
	if len(v) != 2 || !a.flags["master"] || a.epoch != 7 || !a.linked || !b.flags["fail?"] || b.linked ||
		b.master != "aa" {
		t.Errorf("a %+v, b %+v", a, b)
	}
	owners := v.owners()
	for slot, want := range map[int]string{0: "aa", 5: "aa", 6: "", 9: "aa", 10: ""} {
		if owners[slot] != want {
			t.Errorf("slot %d belongs to %q, want %q", slot, owners[slot], want)
		}
	}
	for _, bad := range []string{"aa short line", "aa x master - 0 0 x connected", "aa x master - 0 0 1 connected 5-3",
		"aa x master - 0 0 1 connected 16384", "aa x master - 0 0 1 connected x"} {
		if _, err := parseView(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

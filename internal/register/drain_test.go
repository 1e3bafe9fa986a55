package register

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/node"
)

// written is a node of which the records that are written there are counted.
func written(name string, writes *atomic.Int32) node.Spec {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	count := func(_ *server.Peer, command string, args ...string) bool {
		if (command == "EVALSHA" || command == "EVAL") && args[1] == "1" { // a reading has two keys
			writes.Add(1)
		}
		return false
	}
	dial := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
		c, err := redis.Dial()
		redis.Server().SetPreHook(count) // there is no server before
		return c, err
	}
	return node.Spec{Name: name, Weight: 1, Option: rueidis.ClientOption{InitAddress: []string{name + ":1"},
		ForceSingleClient: true, DialCtxFn: dial}}
}

// drainingAt is a family of a process whose first or second node drains, and the writes so far.
func drainingAt(t *testing.T, drains int) (p *process, writes *atomic.Int32) {
	t.Helper()
	writes = new(atomic.Int32)
	nodes := []node.Spec{written("a", writes), written("b", writes)}
	p = listing(t, Subject{Name: "l", ID: "f:l", Family: true}, wanted(10, 2), nodes...)
	if err := p.register.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain := slices.Clone(nodes)
	drain[drains].Drain = true
	if _, ok := p.env.Nodes.Replace(drain, func() {}, func() map[string]bool { return nil }); !ok {
		t.Fatal("the nodes were not replaced")
	}
	if err := p.register.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, writes
}

// settledRecord reads a record until readings write nothing more.
func settledRecord(t *testing.T, p *process, writes *atomic.Int32) {
	t.Helper()
	for range 4 {
		before := writes.Load()
		if err := p.register.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if writes.Load() == before {
			return
		}
	}
	t.Errorf("each reading writes the record: %d times so far", writes.Load())
}

// A copy of the record that was left on a node that drains is brought up to date, once.
func TestARecordLeftOnADrainingNodeIsNotWrittenWithEachReading(t *testing.T) {
	for drains := range 2 {
		synctest.Test(t, func(t *testing.T) {
			p, writes := drainingAt(t, drains)
			settledRecord(t, p, writes)
		})
	}
}

// Where a node drains on which the record never was, none is missing.
func TestNoRecordIsMissingOnADrainingNode(t *testing.T) {
	for drains := range 2 {
		synctest.Test(t, func(t *testing.T) {
			writes := new(atomic.Int32)
			nodes := []node.Spec{written("a", writes), written("b", writes)}
			nodes[drains].Drain = true
			p := listing(t, Subject{Name: "l", ID: "f:l", Family: true}, wanted(10, 2), nodes...)
			if err := p.register.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			settledRecord(t, p, writes)
		})
	}
}

// Where keys were before is forgotten in time although a node drains: nothing stays there that
// tells of the arrangement before.
func TestArrangementsAreForgottenWhileANodeDrains(t *testing.T) {
	for drains := range 2 {
		synctest.Test(t, func(t *testing.T) {
			p, _ := drainingAt(t, drains)
			if !p.Layout().Keys.Moving() {
				t.Fatalf("%+v", p.Layout().Keys)
			}
			for range 10 {
				time.Sleep(2 * time.Second)
				if err := p.register.sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if p.Layout().Keys.Moving() {
				t.Errorf("%+v", p.Layout().Keys)
			}
		})
	}
}

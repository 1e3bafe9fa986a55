package register

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/internal/node"
)

// served is a node on a server of its own.
func served(name string) node.Spec {
	spec, _ := servedBy(name)
	return spec
}

func servedBy(name string) (node.Spec, *miniredis.Miniredis) {
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	dial := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return redis.Dial() }
	return node.Spec{Name: name, Weight: 1, Option: rueidis.ClientOption{InitAddress: []string{name + ":1"},
		ForceSingleClient: true, DialCtxFn: dial}}, redis
}

// drainingAt is a family of a process one of whose nodes drains.
func drainingAt(t *testing.T, names []string, drains int) *process {
	t.Helper()
	var nodes []node.Spec
	for _, name := range names {
		nodes = append(nodes, served(name))
	}
	p := listing(t, Subject{Name: "l", ID: "f:l", Family: true}, wanted(10, 2), nodes...)
	if err := p.register.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes[drains].Drain = true // for the next process
	p = listing(t, Subject{Name: "l", ID: "f:l", Family: true}, wanted(10, 2), nodes...)
	if err := p.register.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.register.Rebalance(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// No record stays on a node that drains, and what it says goes on.
func TestRecordsLeaveANodeThatDrains(t *testing.T) {
	for _, names := range [][]string{{"a", "b"}, {"a", "b", "c", "d"}} {
		for drains := range names {
			synctest.Test(t, func(t *testing.T) {
				p := drainingAt(t, names, drains)
				if kept := p.env.Book.Nodes(); slices.Contains(kept, names[drains]) {
					t.Errorf("they are on %q while %s drains", kept, names[drains])
				}
				was := p.Layout().Epoch
				if err := p.register.Ask(t.Context(), false); err != nil || p.Layout().Epoch != was {
					t.Errorf("epoch %d after %d: %v", p.Layout().Epoch, was, err)
				}
			})
		}
	}
}

// Where a node drains from the beginning, no record is ever there.
func TestNoRecordBeginsOnADrainingNode(t *testing.T) {
	for drains := range 2 {
		synctest.Test(t, func(t *testing.T) {
			nodes := []node.Spec{served("a"), served("b")}
			nodes[drains].Drain = true
			p := listing(t, Subject{Name: "l", ID: "f:l", Family: true}, wanted(10, 2), nodes...)
			if err := p.register.Join(t.Context()); err != nil {
				t.Fatal(err)
			}
			if kept := p.env.Book.Nodes(); slices.Contains(kept, nodes[drains].Name) {
				t.Errorf("they are on %q", kept)
			}
		})
	}
}

// Where keys were before is forgotten in time although a node drains: nothing stays there that
// tells of the arrangement before.
func TestArrangementsAreForgottenWhileANodeDrains(t *testing.T) {
	for drains := range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := drainingAt(t, []string{"a", "b"}, drains)
			if !p.Layout().Keys.Moving() {
				t.Fatalf("%+v", p.Layout().Keys)
			}
			for range 10 {
				time.Sleep(2 * time.Second)
				if err := p.register.Ask(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			if p.Layout().Keys.Moving() {
				t.Errorf("%+v", p.Layout().Keys)
			}
		})
	}
}

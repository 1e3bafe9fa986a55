package register

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shardlimit/shardlimit/shard"
)

// fenced is a process with a limit on node a, from which node b was taken over. b is in again.
func fenced(t *testing.T, drains bool) *process {
	t.Helper()
	b := served("b")
	b.Drain = drains
	p := listing(t, Subject{Name: "l", ID: "n:l"}, wanted(10, 1), served("a"), b)
	f := p.env.Fence
	if err := f.ConfirmSince(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	layout, err := shard.New(&shard.Fence{Lost: []string{"b"}}, 1, wanted(10, 1).Spec,
		[]shard.Shard{{Node: "a", Share: 10, Life: f.Life("a")}})
	if err != nil {
		t.Fatal(err)
	}
	p.layout.Store(&layout)
	return p
}

// A limit follows a node that is back, unless nothing may be placed there.
func TestALimitDoesNotFollowANodeThatDrains(t *testing.T) {
	for _, drains := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			if got := fenced(t, drains).register.displaced(); got == drains {
				t.Errorf("drains %v: the limit follows %v", drains, got)
			}
		})
	}
}

// deleted is a limit that is deleted between two looks.
type deleted struct {
	*process
	looks atomic.Int64
}

func (d *deleted) Layout() *shard.Layout {
	if d.looks.Add(1) > 1 {
		return nil
	}
	return d.process.Layout()
}

func TestALimitThatIsDeletedWhileItFollowsItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fenced(t, false)
		limit := &deleted{process: p}
		p.register.Limit = limit
		if err := p.register.reconsider(t.Context()); !errors.Is(err, ErrDeleted) || limit.looks.Load() < 2 {
			t.Errorf("%v after %d looks at the layout", err, limit.looks.Load())
		}
	})
}

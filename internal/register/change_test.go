package register

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/shard"
)

// A process stores a change, and before it tells any shard, it learns that another one has stored
// a later change and told nobody either. It returns when every shard obeys one of the two.
func TestAChangeIsToldToTheShardsAlthoughALaterOneIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := newRedis()
		mine, other := processOn(t, redis, wanted(100, 4)), processOn(t, redis, wanted(100, 4))
		next := mine.propose(t, wanted(20, 4))
		other.propose(t, wanted(30, 4))
		must(t, mine.register.Ask(t.Context(), false))
		if now := mine.Layout().Epoch; now <= next.Epoch {
			t.Fatalf("epoch %d does not follow %d", now, next.Epoch)
		}
		must(t, mine.register.putInForce(t.Context(), *next))
		for _, s := range next.Shards {
			if epoch := mine.epochAt(t, s); epoch < next.Epoch {
				t.Errorf("shard %d is at epoch %d; the change is %d", s.Slot, epoch, next.Epoch)
			}
		}
	})
}

// Shards obey a later layout than the one that was just stored, and no record tells of it: so it
// is not in force, and that is an error.
func TestAChangeThatShardsDoNotObeyIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := processOn(t, newRedis(), wanted(100, 1))
		next := p.propose(t, wanted(20, 1))
		later := *next
		later.Epoch += 1000
		_, err := p.Propose(t.Context(), &Offer{Layout: later, Shard: next.Shards[0]})
		must(t, err)
		if err := p.register.putInForce(t.Context(), *next); !errors.Is(err, errOvertaken) {
			t.Errorf("got %v", err)
		}
	})
}

// Another process changes a limit after this one has read its record, or within its round, when it
// has voted for nothing yet. Whoever comes late makes its change on top: nil is its limit in force.
func TestAChangeThatLostIsMadeOnTop(t *testing.T) {
	for _, within := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			redis := newRedis()
			mine, other := processOn(t, redis, wanted(100, 2)), processOn(t, redis, wanted(100, 2))
			tries := 0
			meanwhile := func(at bool) {
				if at == within && tries == 1 {
					if err := other.register.Change(t.Context(), wanted(30, 2)); err != nil {
						t.Error(err)
					}
				}
			}
			err := mine.register.succeed(t.Context(), func(old shard.Layout) (maker, error) {
				tries++
				next := mine.register.become(t.Context(), wanted(20, 2), old)
				meanwhile(false)
				return func(found record.Reading) (shard.Layout, error) {
					meanwhile(true)
					return next(found)
				}, nil
			})
			if err != nil || tries != 2 {
				t.Errorf("within %v: %v after %d tries", within, err, tries)
			}
			stored, err := other.register.Look(t.Context())
			if err != nil || stored.Permits != 20 {
				t.Fatalf("within %v: %+v is stored, %v", within, stored, err)
			}
			for _, s := range stored.Shards {
				if epoch := other.epochAt(t, s); epoch != stored.Epoch {
					t.Errorf("within %v: shard %d is at epoch %d of %d", within, s.Slot, epoch, stored.Epoch)
				}
			}
		})
	}
}

// A limit that this process has deleted is not declared again by a read of its record, nor by who
// joins it just then.
func TestADeletedLimitIsNotDeclaredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := processOn(t, newRedis(), wanted(10, 1)).register
		must(t, r.Delete(t.Context(), func(context.Context) error { return nil }))
		if read, join := r.Ask(t.Context(), false), r.Join(t.Context()); !errors.Is(read, ErrDeleted) ||
			!errors.Is(join, ErrDeleted) {
			t.Errorf("%v, %v", read, join)
		}
		if _, err := r.Look(t.Context()); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
}

// fenced is a process with a limit on node a, from which node b was taken over. b is in again.
func fenced(t *testing.T, drains bool) *process {
	t.Helper()
	b := served("b", newRedis())
	b.Drain = drains
	p := listing(t, wanted(10, 1), served("a", newRedis()), b)
	f := p.env.Fence
	must(t, f.ConfirmSince(t.Context(), 0))
	layout, err := shard.New(&shard.Fence{Lost: []string{"b"}}, 1, wanted(10, 1).Spec,
		[]shard.Shard{{Node: "a", Share: 10, Incarnation: f.Incarnation("a")}})
	must(t, err)
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

// A layout that says where keys are is that of a family, and no other is.
func TestFamiliesAndLimitsHaveLayoutsOfTheirOwn(t *testing.T) {
	r := listing(t, wanted(100, 3), served("n", nil)).register
	nodes := r.env.Nodes.Roster().All()
	limit, err := shard.New(nil, 7, wanted(100, 3).Spec, shard.Arrange("n:l", 100, 3, nodes))
	must(t, err)
	family, err := shard.NewFamily(nil, 7, wanted(100, 3).Spec, limit.Shards, nodes)
	must(t, err)
	for _, r.Family = range []bool{false, true} {
		for _, layout := range []shard.Layout{limit, family} {
			text, err := json.Marshal(layout)
			must(t, err)
			if _, err := r.decode(string(text)); errors.Is(err, ErrUnreadable) == (r.Family == (layout.Keys != nil)) {
				t.Errorf("of a family %v, read as one %v: %v", layout.Keys != nil, r.Family, err)
			}
		}
	}
}

package register

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// movingKey is a key that moves from one node to another, both of which answer at once: what it had
// there has left the window.
type movingKey struct {
	layout  shard.Layout
	arrived bool         // what the shards say
	asked   atomic.Int32 // proposals
	raised  atomic.Int32 // of these, with a floor
	shut    error        // why the outage policy answers
	adopted bool
}

// moving is a key whose layout has this epoch.
func moving(t *testing.T, epoch int64) *movingKey {
	t.Helper()
	spec := shard.Spec{Permits: 10, Window: time.Second, Algorithm: "sliding_log"}
	old, err := shard.New(nil, epoch-1, spec, []shard.Shard{{Slot: 1, Node: "old", Share: 10}})
	must(t, err)
	next, err := old.Change(epoch, spec, []shard.Shard{{Slot: 2, Node: "new", Share: 10}}, 0)
	must(t, err)
	return &movingKey{layout: next}
}

func (k *movingKey) Layout() *shard.Layout { return &k.layout }

func (k *movingKey) Moved(s Step) {
	if s.Layout.Settled {
		k.adopted, k.layout = true, s.Layout
	} else if s.Known {
		k.shut = s.Stuck
	}
}

func (k *movingKey) Propose(ctx context.Context, o *Offer) (script.TakeReply, error) {
	if ctx.Err() != nil {
		return script.TakeReply{}, context.Cause(ctx)
	}
	k.asked.Add(1)
	reply := script.TakeReply{InForce: script.InForce{Epoch: o.Layout.Epoch, Target: o.Shard.Share}}
	if o.Shard.Share == 0 {
		return reply, nil
	}
	if o.Floor > 0 {
		k.raised.Add(1)
	}
	if k.arrived || o.Floor > 0 {
		reply.Share = o.Shard.Share
	}
	return reply, nil
}

// inDoubt has a test take place in simulated time, with a process that may rely on nothing any
// more. Its server takes ten seconds over each command while it is slow.
func inDoubt(t *testing.T, test func(t *testing.T, p *process, slow *atomic.Bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis, slow := newRedis(), new(atomic.Bool)
		p := processOn(t, redis, wanted(10, 1))
		redis.Server().SetPreHook(func(*server.Peer, string, ...string) bool {
			if slow.Load() {
				time.Sleep(10 * time.Second)
			}
			return false
		})
		p.register.Doubt()
		test(t, p, slow)
		slow.Store(false)
		time.Sleep(time.Minute) // until the server has done what it was told
	})
}

func TestAKeyMovesOnceTheRecordOfItsFamilyIsConfirmed(t *testing.T) {
	inDoubt(t, func(t *testing.T, p *process, _ *atomic.Bool) {
		k := moving(t, p.Layout().Epoch)
		NewMove().Follow(t.Context(), p.register.Reader, k)
		if k.raised.Load() != 1 || !k.adopted || k.shut != nil || !p.believes() {
			t.Errorf("%+v", k)
		}
	})
}

// While others of the process read the record, a call cannot have it confirmed. That is no outage.
func TestTheQueueForTheRecordIsNoOutageForAKeyThatMoves(t *testing.T) {
	inDoubt(t, func(t *testing.T, p *process, _ *atomic.Bool) {
		k, m := moving(t, p.Layout().Epoch), NewMove()
		must(t, p.register.Begin(t.Context()))
		m.Follow(t.Context(), p.register.Reader, k)
		if k.asked.Load() > 0 || k.adopted || k.shut != nil || p.register.Failure() != nil {
			t.Errorf("while the record is being read: %+v", k)
		}
		p.register.End()
		m.Follow(t.Context(), p.register.Reader, k)
		if k.raised.Load() != 1 || !k.adopted {
			t.Errorf("afterwards: %+v", k)
		}
	})
}

// A call that has spent its time on waiting for the step of another, and then on the record, asks
// no shard: that none would answer any more tells nothing of them.
func TestACallWithoutTimeMakesNoStep(t *testing.T) {
	inDoubt(t, func(t *testing.T, p *process, slow *atomic.Bool) {
		slow.Store(true)
		k, m := moving(t, p.Layout().Epoch), NewMove()
		m.token <- struct{}{}
		time.AfterFunc(p.env.Nodes.CallTimeout*7/10, func() { <-m.token })
		m.Follow(t.Context(), p.register.Reader, k)
		if k.asked.Load() > 0 || k.shut != nil || p.register.Failure() != nil {
			t.Errorf("%+v, %v", k, p.register.Failure())
		}
	})
}

// A record that does not answer leaves a doubt: nothing is raised, and what has arrived is not put
// in force. The next call does not wait for it as long.
func TestAKeyDoesNotMoveWhileItsFamilyIsInDoubt(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		inDoubt(t, func(t *testing.T, p *process, slow *atomic.Bool) {
			slow.Store(true)
			k, m, begun := moving(t, p.Layout().Epoch), NewMove(), time.Now()
			k.arrived = arrived
			m.Follow(t.Context(), p.register.Reader, k)
			if k.asked.Load() == 0 || k.raised.Load() > 0 || k.adopted || (k.shut == nil) != arrived {
				t.Errorf("arrived %v: %+v", arrived, k)
			}
			if took := time.Since(begun); took < p.env.Nodes.CallTimeout/2 || p.register.Failure() == nil {
				t.Errorf("after %s the register knows of no failure", took)
			}
			m.after.Store(0)
			begun = time.Now()
			if m.Follow(t.Context(), p.register.Reader, k); time.Since(begun) > 0 {
				t.Errorf("the next call took %s", time.Since(begun))
			}
		})
	}
}

// What was confirmed is the family's layout. A key whose own follows from another one is in doubt.
func TestAKeyThatIsBehindItsFamilyDoesNotMove(t *testing.T) {
	inDoubt(t, func(t *testing.T, p *process, _ *atomic.Bool) {
		for _, arrived := range []bool{false, true} {
			k := moving(t, p.Layout().Epoch-1)
			k.arrived = arrived
			NewMove().Follow(t.Context(), p.register.Reader, k)
			if k.raised.Load() > 0 || k.adopted || !arrived && !errors.Is(k.shut, errBehind) {
				t.Errorf("arrived %v: %+v", arrived, k)
			}
		}
	})
}

package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
)

// replacedLimit is a limit whose layout becomes another one when it is confirmed.
type replacedLimit struct {
	quietLimit
	confirmed func()
}

func (l *replacedLimit) Confirm(context.Context, clock.Elapsed) error {
	l.confirmed()
	return nil
}

// A call that is under way on a shard which others took the place of goes on under the terms of the
// last of them.
func TestACallOnAReplacedShardGetsNewTerms(t *testing.T) {
	first := grounded(t)
	first.Terms.Store(&Terms{Epoch: 1})
	limit := &replacedLimit{}
	first.Limit = limit
	second := (&Shard{}).Init(first.env, first.Home, limit, script.ShardRef{}, first.Node, &Terms{})
	second.Replaces(first)
	limit.confirmed = func() { second.Terms.Store(&Terms{Epoch: 2}) }
	var asked []int64
	err := basis{shard: first}.present(t.Context(), told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		asked = append(asked, on.fixed.Epoch)
		if on.fixed.Epoch == 2 {
			return script.Fresh, 1, nil
		}
		return script.Absent, 1, nil
	})
	if err != nil || len(asked) != 2 || asked[0] != 1 || asked[1] != 2 {
		t.Errorf("asked under the epochs %v: %v", asked, err)
	}
}

// leavingLimit is a limit that is seen to have left its shard when that has no state, whether or
// not there was time to confirm anything.
type leavingLimit struct {
	quietLimit
	shard *Shard
	err   error
}

func (l *leavingLimit) Confirm(context.Context, clock.Elapsed) error {
	l.shard.Terms.Store(&Terms{Epoch: 2})
	return l.err
}

// Calls to a shard that the limit has left are denied there, so that they go on under the newer
// layout: the one that found the shard without state, and those that wait behind it. The shard has
// no node: whoever sends a call fails.
func TestALeftShardIsAskedNoMore(t *testing.T) {
	for _, err := range []error{nil, errors.New("no time")} {
		synctest.Test(t, func(t *testing.T) {
			sh := grounded(t)
			sh.Terms.Store(&Terms{Epoch: 1, Most: 1})
			first := sh.call(t.Context(), 1, false)
			absent := sh.next()
			behind := sh.call(t.Context(), 2, false)
			sh.Limit = &leavingLimit{quietLimit{sh.account()}, sh, err}
			sh.sendSlowly(absent, told{script.Absent, 1})
			sh.prepared()
			synctest.Wait()
			for name, o := range map[string]*outcomeOf{"first": first, "behind": behind} {
				if !o.ended.Load() || o.err != nil || o.Granted != 0 {
					t.Errorf("%v: %s: %+v", err, name, o)
				}
			}
		})
	}
}

// A slow call that does not come back is given up: whoever waits for it is answered in time.
func TestASlowCallIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh, late := grounded(t), make(chan struct{})
		sh.Terms.Store(&Terms{Epoch: 1, Most: 1})
		waits := sh.call(t.Context(), 1, false)
		sh.Limit = &replacedLimit{quietLimit{sh.account()}, func() { <-late }}
		go sh.sendSlowly(sh.next(), told{script.Absent, 1})
		time.Sleep(sh.env.CallTimeout + watchGrace)
		synctest.Wait()
		if !waits.ended.Load() || !errors.Is(waits.err, node.ErrAway) {
			t.Errorf("ended %v: %v", waits.ended.Load(), waits.err)
		}
		close(late)
	})
}

// restedLimit is a limit whose layout was confirmed too long ago, and cannot be now.
type restedLimit struct {
	quietLimit
	waits int
}

func (*restedLimit) Belief(int64, clock.Elapsed) Belief { return Belief{Expired: true} }

func (l *restedLimit) Confirm(context.Context, clock.Elapsed) error {
	l.waits++
	return errors.New("the record does not answer")
}

// A shard that nobody tells of another layout is asked once the layout was confirmed, or half of a
// call was spent on that. Others are asked at once.
func TestAShardThatNobodyTellsIsAskedAfterALookAtTheRecord(t *testing.T) {
	for untold, want := range map[bool]int{false: 0, true: 1} {
		limit := &restedLimit{}
		sh := grounded(t)
		sh.Limit, sh.Keyed = limit, untold
		asked := 0
		err := basis{shard: sh}.present(t.Context(), told{}, func(basis) (script.Status, clock.ServerTime, error) {
			asked++
			return script.OK, 1, nil
		})
		if err != nil || asked != 1 || limit.waits != want {
			t.Errorf("untold %v: %v, asked %d times after %d waits", untold, err, asked, limit.waits)
		}
	}
}

// unconfirmedFence is a fence that no read has confirmed.
type unconfirmedFence struct{}

func (unconfirmedFence) Until(clock.Elapsed) clock.Elapsed { return 0 }
func (unconfirmedFence) Bars(node, life string) bool       { return false }

func (unconfirmedFence) ConfirmSince(context.Context, clock.Elapsed) error { return nil }

// The first call to a node whose time is not known is refused under a fence, and told the time: so
// no take is asked first that would not tell.
func TestTheFirstCallUnderAFenceAsksTheTime(t *testing.T) {
	limit := &restedLimit{}
	sh := grounded(t)
	sh.Limit, sh.Keyed = limit, true
	sh.Terms.Store(&Terms{Epoch: 1, Most: 1, Fence: unconfirmedFence{}})
	calls := 0
	err := basis{shard: sh}.present(t.Context(), told{}, func(on basis) (script.Status, clock.ServerTime, error) {
		s := section{shard: sh, batch: newBatch(sh)}
		s.prepare(on, sh.env.Clock.Now())
		if calls++; !s.take.Rare {
			t.Error("the calm take is asked, which does not tell the time")
		}
		return []script.Status{script.Fenced, script.OK}[calls-1], 1, nil
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

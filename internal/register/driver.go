package register

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/shard"
)

// How often a driver looks at the shards. Where a look finds nothing new the pause doubles, up to a
// part of the window.
const (
	leastPause = time.Millisecond
	windowPart = 64
	mostPause  = 30 * time.Second
	// The longest pause where shards, or the record, do not answer.
	failedPause = time.Second
	// A process that does not lead looks more rarely, and the more rarely the more there are.
	followPause = 250 * time.Millisecond
)

// TokenBucket is the name under which records hold that algorithm.
const TokenBucket = "token_bucket"

// beginDriving has the capacity moved in the background until the layout of this epoch is settled.
// The process that made it of another one leads; the others look on, rarely, and finish what it
// leaves.
func (r *Register) beginDriving(epoch int64) {
	if r.driving.Swap(epoch) != epoch {
		r.env.Nodes.Spawn(func(ctx context.Context) { r.driveOn(ctx, epoch) })
	}
}

func (r *Register) driveOn(ctx context.Context, epoch int64) {
	defer r.driving.CompareAndSwap(epoch, 0)
	var m *mover
	failed := false
	for pause := leastPause; ; {
		t := r.Limit.Layout()
		if t == nil || t.Epoch != epoch || t.Settled || r.Deleted() {
			return
		}
		if m == nil {
			m = newMover(r.Reader, r.Shards, *t)
		} else {
			before := slices.Clone(m.seen)
			step, errs := r.round(ctx, m, false)
			if failed = step.Superseded || errors.Join(errs...) != nil; step.Superseded {
				_ = r.Ask(ctx, false)
			}
			if pause *= 2; !slices.Equal(before, m.seen) {
				pause = leastPause
			}
		}
		most := longestPause(t.Window)
		if failed {
			most = max(most, failedPause)
		}
		if pause = min(pause, most); r.leads.Load() != epoch {
			pause = max(most, followPause) * time.Duration(1+r.Participants.Load()/20)
			pause = pause/2 + chance.N(pause)
		}
		if !clock.Sleep(ctx, pause) {
			return
		}
	}
}

// longestPause is how long the shards of a layout that is not settled are left alone.
func longestPause(window time.Duration) time.Duration {
	return min(max(window/windowPart, 20*time.Millisecond), mostPause)
}

// round asks the shards that may have something new, or all of them, raises what may be raised, and
// settles the layout when all capacity has arrived.
func (r *Register) round(ctx context.Context, m *mover, all bool) (shard.Step, []error) {
	floors := m.layout.Opening(m.layout.Algorithm == TokenBucket)
	for i, s := range m.layout.Shards {
		if o := m.seen[i]; !all && o.Seen && o.Epoch == m.layout.Epoch && !o.Closed && o.Share <= s.Share {
			floors[i] = notAsked // it waits for others, or has what it is to have
		}
	}
	m.forced = all
	step, _, errs := m.round(ctx, floors, true)
	if step.Done {
		if err := r.settle(ctx, m.layout); err != nil {
			errs = append(errs, err)
			step.Done = false
		}
	}
	return step, errs
}

// mover moves the capacity of one unsettled layout, a step at a time. It belongs to one goroutine.
type mover struct {
	*Reader
	to     Shards
	layout shard.Layout
	seen   []shard.Observation
	forced bool // nodes that are believed to be away are asked, too
}

// newMover returns a mover that has asked no shard.
func newMover(r *Reader, to Shards, layout shard.Layout) *mover {
	return &mover{Reader: r, to: to, layout: layout, seen: make([]shard.Observation, len(layout.Shards))}
}

// round offers the layout with these floors, and then raises what may be raised, if it is to. It
// tells the reader of later epochs that shards have shown.
func (m *mover) round(ctx context.Context, floors []int64, raise bool) (step shard.Step, raised bool, errs []error) {
	errs = m.offer(ctx, floors)
	step = m.layout.Plan(m.seen)
	if raised = raise && slices.ContainsFunc(step.Raise, func(v int64) bool { return v > 0 }); raised {
		for i, v := range step.Raise {
			if v == 0 || !m.seen[i].Seen {
				step.Raise[i] = notAsked
			}
		}
		errs = append(errs, m.offer(ctx, step.Raise)...)
		step = m.layout.Plan(m.seen)
	}
	for _, o := range m.seen {
		if step.Superseded && o.Seen && o.Epoch > m.layout.Epoch {
			m.Behind(o.Epoch)
		}
	}
	return step, raised, errs
}

// notAsked stands in place of the floor of a shard that an offer leaves out.
const notAsked = -1

// offer proposes the layout, with these floors, at once to its shards, and notes what they hold.
// The errors are by shard.
func (m *mover) offer(ctx context.Context, floors []int64) []error {
	errs := make([]error, len(m.layout.Shards))
	var wg sync.WaitGroup
	for i, s := range m.layout.Shards {
		if floors[i] == notAsked {
			continue
		}
		if left, out := m.givenUpIn(m.layout, s); out && left == 0 {
			m.seen[i] = shard.Observation{Seen: true, Epoch: m.layout.Epoch}
			continue
		}
		wg.Go(func() {
			reply, err := m.to.Propose(ctx, &Offer{Layout: m.layout, Shard: s, Floor: floors[i], Forced: m.forced})
			if err != nil {
				errs[i] = err
				return
			}
			m.seen[i] = shard.Observation{Seen: true, Epoch: reply.Epoch, Start: reply.Start, Share: reply.Share,
				Closed: reply.Closed > 0}
		})
	}
	wg.Wait()
	return errs
}

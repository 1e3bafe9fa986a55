package register

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// driver moves the capacity of a limit in the background until its layout is settled. The process
// that made the layout leads; the others look on, rarely, and finish what it leaves.
type driver struct {
	register *Register
	driving  atomic.Bool
	poked    chan struct{} // wakes it
}

// begin has it move what is to be moved.
func (d *driver) begin() {
	d.poke()
	if !d.driving.CompareAndSwap(false, true) {
		return
	}
	if !d.register.env.Nodes.Spawn(d.drive) {
		d.driving.Store(false)
	}
}

// Stir has the driver look at once: permits came back to shards, which may give capacity up. Of a
// key there is none.
func (r *Register) Stir() {
	if r != nil && r.driver.driving.Load() {
		r.driver.poke()
	}
}

// poke ends the pause of the driver.
func (d *driver) poke() {
	select {
	case d.poked <- struct{}{}:
	default:
	}
}

func (d *driver) drive(ctx context.Context) {
	r := d.register
	defer func() {
		d.driving.Store(false)
		if ctx.Err() == nil && d.unsettled() != nil {
			d.begin() // it came just now
		}
	}()
	var m *mover
	failed := false
	for pause := leastPause; ; {
		t := d.unsettled()
		if t == nil {
			return
		}
		if m == nil || m.layout.Epoch != t.Epoch {
			m, pause = newMover(&r.arranger, r.Limit, *t), leastPause
		}
		most := longestPause(t.Window)
		if failed {
			most = max(most, failedPause)
		}
		if pause = min(pause, most); r.leads.Load() != t.Epoch {
			pause = max(most, followPause) * time.Duration(1+r.Participants.Load()/20)
			pause = pause/2 + chance.N(pause)
		}
		if !d.rest(ctx, pause) {
			return
		}
		if now := d.unsettled(); now == nil || now.Epoch != m.layout.Epoch {
			continue
		}
		before := slices.Clone(m.seen)
		step, errs := d.round(ctx, m, false)
		if failed = step.Superseded || errors.Join(errs...) != nil; step.Superseded {
			_ = r.Ask(ctx, false)
		}
		if pause *= 2; !slices.Equal(before, m.seen) {
			pause = leastPause
		}
	}
}

// unsettled is the layout whose capacity has not arrived; nil: there is none.
func (d *driver) unsettled() *shard.Layout {
	if t := d.register.Limit.Layout(); t != nil && !t.Settled && !d.register.Deleted() {
		return t
	}
	return nil
}

// longestPause is how long the shards of a layout that is not settled are left alone.
func longestPause(window time.Duration) time.Duration {
	return min(max(window/windowPart, 20*time.Millisecond), mostPause)
}

// rest waits until the pause is over, or somebody pokes. It reports false if ctx ended.
func (d *driver) rest(ctx context.Context, pause time.Duration) bool {
	if !clock.Sleep(ctx, leastPause) {
		return false
	}
	nap := time.NewTimer(pause)
	defer nap.Stop()
	select {
	case <-nap.C:
	case <-d.poked:
	case <-ctx.Done():
		return false
	}
	return true
}

// round asks the shards that may have something new, or all of them, raises what may be raised, and
// settles the layout when all capacity has arrived.
func (d *driver) round(ctx context.Context, m *mover, all bool) (shard.Step, []error) {
	floors := m.layout.Opening(m.layout.Algorithm == TokenBucket)
	for i, s := range m.layout.Shards {
		if o := m.seen[i]; !all && o.Seen && o.Epoch == m.layout.Epoch && !o.Closed && o.Share <= s.Share {
			floors[i] = notAsked // it waits for others, or has what it is to have
		}
	}
	m.forced = all
	step, _, errs := m.round(ctx, d.register.Reader, floors, true)
	if step.Done {
		if err := d.register.settle(ctx, m.layout); err != nil {
			errs = append(errs, err)
			step.Done = false
		}
	}
	return step, errs
}

// mover moves the capacity of one unsettled layout, a step at a time. It belongs to one goroutine.
type mover struct {
	*arranger
	to     proposer
	layout shard.Layout
	seen   []shard.Observation
	forced bool // nodes that are believed to be away are asked, too
}

// newMover returns a mover that has asked no shard.
func newMover(a *arranger, to proposer, layout shard.Layout) *mover {
	return &mover{arranger: a, to: to, layout: layout, seen: make([]shard.Observation, len(layout.Shards))}
}

// round offers the layout with these floors, and then raises what may be raised, if it is to. It
// tells the reader of later epochs that shards have shown.
func (m *mover) round(ctx context.Context, r *Reader, floors []int64, raise bool) (step shard.Step, raised bool,
	errs []error) {
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
			r.Behind(o.Epoch)
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

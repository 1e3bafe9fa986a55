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

// driver moves the capacity of one unsettled layout. It belongs to one goroutine.
type driver struct {
	register *Register
	layout   shard.Layout
	seen     []shard.Observation
}

// newDriver returns a driver that has asked no shard.
func newDriver(r *Register, layout shard.Layout) *driver {
	return &driver{register: r, layout: layout, seen: make([]shard.Observation, len(layout.Shards))}
}

// driveOn moves capacity in the background until the layout is settled. The process that made
// the layout leads; the others look on, rarely, and finish what it leaves.
func (r *Register) driveOn() {
	r.poke()
	if !r.driving.CompareAndSwap(false, true) {
		return
	}
	if !r.env.Nodes.Spawn(r.drive) {
		r.driving.Store(false)
	}
}

// Stir has the driver look at once: permits came back to shards, which may give capacity up.
func (r *Register) Stir() {
	if r.driving.Load() {
		r.poke()
	}
}

// poke ends the pause of the driver.
func (r *Register) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

func (r *Register) drive(ctx context.Context) {
	defer func() {
		r.driving.Store(false)
		if ctx.Err() == nil && r.unsettled() != nil {
			r.driveOn() // it came just now
		}
	}()
	var d *driver
	failed := false
	for pause := leastPause; ; {
		t := r.unsettled()
		if t == nil {
			return
		}
		if d == nil || d.layout.Epoch != t.Epoch {
			d, pause = newDriver(r, *t), leastPause
		}
		most := longestPause(t.Window)
		if failed {
			most = max(most, failedPause)
		}
		if pause = min(pause, most); r.leads.Load() != t.Epoch {
			pause = max(most, followPause) * time.Duration(1+r.participants.Load()/20)
			pause = pause/2 + chance.N(pause)
		}
		if !r.rest(ctx, pause) {
			return
		}
		if now := r.unsettled(); now == nil || now.Epoch != d.layout.Epoch {
			continue
		}
		before := slices.Clone(d.seen)
		step, errs := d.round(ctx, false)
		if failed = step.Superseded || errors.Join(errs...) != nil; step.Superseded {
			_ = r.Ask(ctx, false)
		}
		if pause *= 2; !slices.Equal(before, d.seen) {
			pause = leastPause
		}
	}
}

// unsettled is the layout whose capacity has not arrived; nil: there is none.
func (r *Register) unsettled() *shard.Layout {
	if t := r.Limit.Layout(); t != nil && !t.Settled && !r.Deleted() {
		return t
	}
	return nil
}

// longestPause is how long the shards of a layout that is not settled are left alone.
func longestPause(window time.Duration) time.Duration {
	return min(max(window/windowPart, 20*time.Millisecond), mostPause)
}

// rest waits until the pause is over, or somebody pokes. It reports false if ctx ended.
func (r *Register) rest(ctx context.Context, pause time.Duration) bool {
	if !clock.Sleep(ctx, leastPause) {
		return false
	}
	nap := time.NewTimer(pause)
	defer nap.Stop()
	select {
	case <-nap.C:
	case <-r.poked:
	case <-ctx.Done():
		return false
	}
	return true
}

// round asks the shards that may have something new, or all of them, raises what may be raised, and
// settles the layout when all capacity has arrived.
func (d *driver) round(ctx context.Context, all bool) (shard.Step, []error) {
	r := d.register
	floors := d.layout.Opening(d.layout.Algorithm == TokenBucket)
	for i, s := range d.layout.Shards {
		if o := d.seen[i]; !all && o.Seen && o.Epoch == d.layout.Epoch && !o.Closed && o.Share <= s.Share {
			floors[i] = notAsked // it waits for others, or has what it is to have
		}
	}
	errs := r.offer(ctx, r.Limit, d.layout, d.seen, all, floors)
	step := d.layout.Plan(d.seen)
	if slices.ContainsFunc(step.Raise, func(v int64) bool { return v > 0 }) {
		for i, v := range step.Raise {
			if v == 0 || !d.seen[i].Seen {
				step.Raise[i] = notAsked
			}
		}
		errs = append(errs, r.offer(ctx, r.Limit, d.layout, d.seen, all, step.Raise)...)
		step = d.layout.Plan(d.seen)
	}
	if step.Superseded {
		r.overtaken(d.layout.Epoch, d.seen)
	}
	if step.Done {
		if err := r.settle(ctx, d.layout); err != nil {
			errs = append(errs, err)
			step.Done = false
		}
	}
	return step, errs
}

// overtaken notes the later epochs that shards have shown.
func (r *Register) overtaken(epoch int64, seen []shard.Observation) {
	for _, o := range seen {
		if o.Seen && o.Epoch > epoch {
			r.Behind(o.Epoch)
		}
	}
}

// notAsked stands in place of the floor of a shard that an offer leaves out.
const notAsked = -1

// offer proposes a layout, with these floors, at once to its shards, and notes what they hold. The
// errors are by shard.
func (r *Register) offer(ctx context.Context, to proposer, layout shard.Layout, seen []shard.Observation,
	forced bool, floors []int64) []error {
	errs := make([]error, len(layout.Shards))
	var wg sync.WaitGroup
	for i, s := range layout.Shards {
		if floors[i] == notAsked {
			continue
		}
		if left, out := r.givenUpIn(layout, s); out && left == 0 {
			seen[i] = shard.Observation{Seen: true, Epoch: layout.Epoch}
			continue
		}
		wg.Go(func() {
			reply, err := to.Propose(ctx, &Offer{Layout: layout, Shard: s, Floor: floors[i], Forced: forced})
			if err != nil {
				errs[i] = err
				return
			}
			seen[i] = shard.Observation{Seen: true, Epoch: reply.Epoch, Start: reply.Start, Share: reply.Share,
				Closed: reply.Closed > 0}
		})
	}
	wg.Wait()
	return errs
}

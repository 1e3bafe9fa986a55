package register

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// How often a driver asks shards. A shard is asked again when it can have something new.
const (
	leadMost    = 250 * time.Millisecond // longest of the least pauses between two looks at a shard
	awayMost    = 4 * time.Second        // longest pause before a shard that does not answer is asked again
	followMost  = 15 * time.Second       // the same of a process that does not lead
	refreshLess = StateKeep / 2          // a shard is asked so long before its state could expire
	steps       = 128                    // looks in a window at a share that falls all the time
	never       = math.MaxInt64
)

// driver moves the capacity of one unsettled layout. It remembers when each shard can have
// something new, and asks no shard before. It belongs to one goroutine.
type driver struct {
	register *Register
	layout   shard.Layout
	seen     []shard.Observation
	due      []int64         // when each shard is asked again, on the client's clock
	pause    []time.Duration // how long a shard is left alone that had no answer; 0: it had one
	settleAt int64           // when the layout may be stored as settled, if that failed before
	settling time.Duration   // the pause before that
}

// newDriver returns a driver that is to ask every shard at once.
func newDriver(r *Register, layout shard.Layout) *driver {
	n := len(layout.Shards)
	return &driver{register: r, layout: layout, seen: make([]shard.Observation, n), due: make([]int64, n),
		pause: make([]time.Duration, n)}
}

// driveOn moves capacity in the background until the layout is settled. The process that made
// the layout leads; the others look on, rarely, and the more rarely the more there are, and finish
// what it leaves.
func (r *Register) driveOn() {
	r.poke()
	if !r.driving.CompareAndSwap(false, true) {
		return
	}
	if !r.env.Nodes.Spawn(r.drive) {
		r.driving.Store(false)
	}
}

// Stir has the driver look at once at the shards that give capacity up: permits came back to them.
func (r *Register) Stir() {
	if r.driving.Load() {
		r.stirred.Store(true)
		r.poke()
	}
}

// poke has the driver look whether there is another layout or a reason to ask shards.
func (r *Register) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

func (r *Register) drive(ctx context.Context) {
	defer func() {
		r.driving.Store(false)
		if t := r.Limit.Layout(); ctx.Err() == nil && t != nil && !t.Settled {
			r.driveOn() // it came just now
		}
	}()
	var d *driver
	for {
		t := r.Limit.Layout()
		if t == nil || t.Settled {
			return
		}
		leading := r.leads.Load() == t.Epoch
		if d == nil || d.layout.Epoch != t.Epoch {
			d = newDriver(r, *t)
			pause := r.rhythm(t.Window, leading)
			for i := range d.due {
				d.due[i] = r.now() + int64(pause)
			}
		}
		if !d.sleep(ctx, leading) {
			return
		}
		if r.stirred.Swap(false) { // shards are due that still hold more than they are to have
			for i, s := range d.layout.Shards {
				if d.pause[i] == 0 && d.seen[i].Seen && d.seen[i].Share > s.Share {
					d.due[i] = 0
				}
			}
		}
		if now := r.Limit.Layout(); now == nil || now.Epoch != d.layout.Epoch || leading && d.next() > r.now() {
			continue
		}
		if step, _ := d.round(ctx, false); step.Superseded {
			_ = r.Ask(ctx, false)
		}
	}
}

// rhythm is the least time between two looks at a shard: of a process that leads, or of one that
// follows.
func (r *Register) rhythm(window time.Duration, leading bool) time.Duration {
	if leading {
		return min(max(window/64, 2*time.Millisecond), leadMost)
	}
	pause := min(max(window/4, 50*time.Millisecond), max(time.Second, min(window/4096, followMost)))
	pause *= time.Duration(1 + r.participants.Load()/20)
	return pause/2 + chance.N(pause)
}

// sleep waits until a shard is to be asked, or somebody pokes. It reports false if ctx ended.
func (d *driver) sleep(ctx context.Context, leading bool) bool {
	now := d.register.now()
	wake := d.next()
	if !leading {
		wake = max(wake, now+int64(d.register.rhythm(d.layout.Window, false)))
	}
	nap := time.NewTimer(time.Duration(max(wake-now, int64(leastNap))))
	defer nap.Stop()
	select {
	case <-nap.C:
	case <-d.register.poked:
	case <-ctx.Done():
		return false
	}
	return true
}

// leastNap is the least time between two rounds that nobody asked for.
const leastNap = time.Millisecond

// next is when the driver has something to do.
func (d *driver) next() int64 {
	at := slices.Min(d.due)
	if d.settleAt > 0 {
		at = min(at, d.settleAt)
	}
	return at
}

// round asks the shards that are due, or all of them, raises what may be raised, and
// settles the layout when all capacity has arrived.
func (d *driver) round(ctx context.Context, all bool) (shard.Step, []error) {
	r := d.register
	errs := d.visit(ctx, nil, all)
	step := d.layout.Plan(d.seen)
	if slices.ContainsFunc(step.Raise, func(v int64) bool { return v > 0 }) {
		errs = append(errs, d.visit(ctx, step.Raise, all)...)
		step = d.layout.Plan(d.seen)
	}
	if step.Superseded {
		r.overtaken(d.layout.Epoch, d.seen)
	}
	if !step.Done {
		d.settleAt, d.settling = 0, 0
	} else if now := r.now(); now >= d.settleAt {
		err := r.settle(ctx, d.layout)
		if err != nil {
			errs = append(errs, err)
			step.Done = false
		}
		if t := r.Limit.Layout(); err != nil || t != nil && !t.Settled {
			// or others were faster, with something else
			d.settling = d.longer(d.settling)
			d.settleAt = r.now() + int64(d.settling)
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

// proposer is what shards are told a layout through.
type proposer interface {
	Propose(ctx context.Context, o *Offer) (script.TakeReply, error)
	FailedAt(at shard.Location, err error) error
}

// offered is what became of an offer.
type offered struct {
	reply script.TakeReply
	err   error
	out   bool          // the shard leaves, and its node is out
	left  time.Duration // then: until it can have nothing in use any more; 0: it was not asked
}

// offer proposes a layout at once to those of its shards that get a floor, and notes what they
// hold. done may take in what became of each. The errors are by shard.
func (r *Register) offer(ctx context.Context, to proposer, layout shard.Layout, seen []shard.Observation,
	forced bool, floor func(i int) (floor int64, ok bool), done func(i int, got offered) error) []error {
	errs := make([]error, len(layout.Shards))
	var wg sync.WaitGroup
	for i, s := range layout.Shards {
		floor, ok := floor(i)
		if !ok {
			continue
		}
		wg.Go(func() {
			var got offered
			if got.left, got.out = r.givenUpIn(layout, s); got.out && got.left == 0 {
				seen[i] = shard.Observation{Seen: true, Epoch: layout.Epoch}
			} else {
				o := &Offer{Layout: layout, Shard: s, Floor: floor, Forced: forced}
				if got.reply, got.err = to.Propose(ctx, o); got.err == nil {
					seen[i] = observed(&got.reply)
				}
			}
			if done != nil {
				got.err = done(i, got)
			}
			if got.err != nil {
				errs[i] = to.FailedAt(s.Site().Location, got.err)
			}
		})
	}
	wg.Wait()
	return errs
}

// visit proposes the layout to the shards that are due, or to all. With floors it proposes these,
// to the shards that have one and answered when they were last asked.
func (d *driver) visit(ctx context.Context, floors []int64, all bool) []error {
	began := d.register.now()
	opening := d.layout.Opening(d.layout.Algorithm == TokenBucket)
	return d.register.offer(ctx, d.register.Limit, d.layout, d.seen, all, func(i int) (int64, bool) {
		if floors == nil {
			return opening[i], all || d.due[i] <= began
		}
		return floors[i], floors[i] > 0 && d.pause[i] == 0
	}, d.asked)
}

// asked notes when a shard is to be asked again.
func (d *driver) asked(i int, got offered) error {
	now, s, err := d.register.now(), d.layout.Shards[i], got.err
	if got.out && got.left == 0 {
		d.pause[i], d.due[i] = 0, never
		return nil
	}
	wait := time.Duration(-1)
	if err == nil && got.reply.Epoch == d.layout.Epoch {
		wait = d.lull(s, &got.reply)
	}
	if t := d.register.Limit.Layout(); err != nil && t != nil && t.Epoch > d.layout.Epoch && s.Start <= 0 {
		// It had no share to give up, and gets no state under a layout that is not in force any
		// more.
		d.seen[i], err = shard.Observation{Seen: true, Epoch: t.Epoch}, nil
	}
	switch {
	case wait < 0:
		d.pause[i] = d.longer(d.pause[i])
		d.due[i] = now + int64(d.pause[i])
		if got.out { // until nothing of it can be in use any more, whether it answers or not
			d.due[i] = now + int64(min(d.pause[i], max(got.left, d.register.rhythm(d.layout.Window, true))))
		}
	case wait == never:
		d.pause[i], d.due[i] = 0, never
	default:
		d.pause[i], d.due[i] = 0, now+int64(max(wait, d.register.rhythm(d.layout.Window, true)))
	}
	return err
}

// longer is the pause after another failure: twice the last one, spread by a quarter, so that
// processes that lost the same node do not ask in step.
func (d *driver) longer(pause time.Duration) time.Duration {
	pause = min(max(2*pause, d.register.rhythm(d.layout.Window, true)), awayMost)
	return pause - chance.N(pause/4+1)
}

// lull is how long a shard that answered so has nothing new to say; -1 if that is not known.
// A shard that has less than its share waits for others, and one that has it is done. Both
// are asked again before they could be forgotten.
func (d *driver) lull(s shard.Shard, r *script.TakeReply) time.Duration {
	refresh := d.layout.Span() + refreshLess
	switch {
	case r.Closed > 0:
		return min(r.Closed, refresh)
	case r.Share < r.Target:
		return refresh
	case r.Share == r.Target && s.Share == 0:
		return never
	case r.Share == r.Target:
		return refresh
	case s.Algorithm == TokenBucket || s.Algorithm == LeakyBucket:
		// falls all the time, or when all is over
		if r.Reset <= 0 {
			return d.layout.Span() / steps
		}
		return min(d.layout.Span()/steps, r.Reset)
	case r.Next <= 0:
		return -1
	}
	return min(r.Next, refresh)
}

// observed is what a shard's reply to a proposal tells of it.
func observed(r *script.TakeReply) shard.Observation {
	return shard.Observation{Seen: true, Epoch: r.Epoch, Start: r.Start, Share: r.Share, Closed: r.Closed > 0}
}

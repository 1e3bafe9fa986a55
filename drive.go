package shardlimit

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// change stores a new layout for the limit and starts the move of its capacity.
// It returns when every shard that can be reached has adopted the layout.
func (r *register) change(ctx context.Context, limit Limit, unless func(Limit) bool) error {
	next, err := r.propose(ctx, limit, unless)
	if err != nil || next == nil {
		return err
	}
	return r.putInForce(ctx, *next)
}

// putInForce tells every shard of a new layout, and starts the move of its capacity.
func (r *register) putInForce(ctx context.Context, next shard.Layout) error {
	if t := r.core.table.Load(); next.Settled || t != nil && t.layout.Epoch > next.Epoch {
		return nil // nothing moves, or others have changed it already
	}
	step, errs := r.step(ctx, next)
	if !step.Done && !step.Superseded {
		r.driveOn(true)
	}
	return errors.Join(errs...)
}

// propose writes the layout for a limit as the successor of the stored one,
// again and again while other processes do the same. It returns nil if unless
// says of the stored limit that nothing is to be done.
func (r *register) propose(ctx context.Context, limit Limit, unless func(Limit) bool) (*shard.Layout, error) {
	return r.succeed(ctx, func(t *table) (*shard.Layout, error) {
		if unless != nil && unless(t.limit) {
			return nil, nil
		}
		if r.family {
			limit.Shards = t.limit.Shards // the keys of a family never change how many shards they have
		}
		limit.Revision = max(limit.Revision, t.limit.Revision) // else code of that revision would undo the change
		next, err := t.layout.Change(t.layout.Epoch+1, specOf(limit), r.core.client.arrange(ctx, r.core.id, limit, r.participants.Load()))
		if err == nil && r.family {
			next.Keys, err = r.keysFor(t.layout, specOf(limit), nil)
		}
		return &next, err
	})
}

// rebalance arranges the same limit over the nodes as they are now.
func (r *register) rebalance(ctx context.Context) error {
	next, err := r.succeed(ctx, func(t *table) (*shard.Layout, error) {
		if r.family {
			return r.rearrange(t.layout)
		}
		spec, limit := t.layout.Spec(), t.limit
		if spec.Auto {
			limit.Shards = 0
		}
		next, err := t.layout.Change(t.layout.Epoch+1, spec, r.core.client.arrange(ctx, r.core.id, limit, r.participants.Load()))
		if err == nil && next.Settled && r.anchorFor(t.layout) == t.layout.Anchor {
			return nil, nil // everything is where it should be
		}
		return &next, err
	})
	if err != nil || next == nil {
		return err
	}
	return r.putInForce(ctx, *next)
}

// succeed replaces the stored layout by what follow makes of it, nil for nothing, again and again while other
// processes change it too. Of one process only one does this at a time: each attempt but
// one would be in vain.
func (r *register) succeed(ctx context.Context, follow func(*table) (*shard.Layout, error)) (*shard.Layout, error) {
	select {
	case r.proposing <- struct{}{}:
		defer func() { <-r.proposing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		sent := r.core.client.elapsed()
		if err := r.sync(ctx); err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		t := r.core.table.Load()
		next, err := follow(t)
		if err != nil || next == nil {
			return nil, err
		}
		*next = next.AnchoredAt(r.anchorFor(t.layout), t.layout)
		agreed, err := r.store(ctx, t.layout, *next)
		if err != nil {
			return nil, errors.Join(ErrUnavailable, err)
		}
		if agreed {
			stored := r.asStored(*next)
			return &stored, r.adoptAs(stored, sent)
		}
		if !sleep(ctx, rand.N(pause)) {
			return nil, context.Cause(ctx)
		}
	}
}

// driveSoon takes part in a change that another process began: rarely, and the
// more rarely the more processes there are, because any of them will do.
func (r *register) driveSoon() { r.driveOn(false) }

// driveOn moves capacity in the background until the layout is settled.
func (r *register) driveOn(leading bool) {
	if !r.driving.CompareAndSwap(false, true) {
		return
	}
	r.core.client.spawn(func(ctx context.Context) {
		defer r.driving.Store(false)
		for {
			t := r.core.table.Load()
			if t == nil || t.layout.Settled {
				return
			}
			if !sleep(ctx, r.rhythm(t.limit.Per, leading)) {
				return
			}
			if !leading && r.sync(ctx) != nil {
				continue
			}
			if t = r.core.table.Load(); t.layout.Settled {
				return
			}
			step, _ := r.step(ctx, t.layout)
			if step.Superseded {
				_ = r.sync(ctx)
				leading = false
			}
		}
	})
}

func (r *register) rhythm(window time.Duration, leading bool) time.Duration {
	if leading {
		return min(max(window/64, 2*time.Millisecond), 250*time.Millisecond)
	}
	pause := min(max(window/4, 50*time.Millisecond), time.Second)
	pause *= time.Duration(1 + r.participants.Load()/20)
	return pause/2 + rand.N(pause)
}

// step looks at every shard, raises what may be raised, and settles the layout
// when all capacity has arrived. Any number of processes may do this at once.
func (r *register) step(ctx context.Context, layout shard.Layout) (shard.Step, []error) {
	seen := make([]shard.Observation, len(layout.Shards))
	errs := r.visit(ctx, layout, seen, nil)
	step := layout.Plan(seen)
	if slices.ContainsFunc(step.Raise, func(v int64) bool { return v > 0 }) {
		errs = append(errs, r.visit(ctx, layout, seen, step.Raise)...)
		step = layout.Plan(seen)
	}
	if step.Superseded {
		for _, o := range seen {
			if o.Seen && o.Epoch > layout.Epoch {
				r.behind(o.Epoch)
			}
		}
	}
	if step.Done {
		if err := r.settle(ctx, layout); err != nil {
			errs = append(errs, err)
			step.Done = false
		}
	}
	return step, errs
}

// visit proposes the layout to its shards, with the given floors if there are
// any, and notes what they hold.
func (r *register) visit(ctx context.Context, layout shard.Layout, seen []shard.Observation, floors []int64) []error {
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for i, s := range layout.Shards {
		if floors != nil && floors[i] == 0 {
			continue
		}
		var floor int64
		if floors != nil {
			floor = floors[i]
		}
		l := r.core.laneTo(s)
		wg.Go(func() {
			err := errNodeAway
			if l != nil {
				seen[i], err = l.propose(ctx, layout, s, floor)
			}
			if err != nil {
				failure := &ShardError{Limiter: r.core.name, Shard: shard.Tag(s.Slot), Node: s.Node, Err: err}
				mu.Lock()
				errs = append(errs, failure)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errs
}

// propose offers a layout to the shard without asking for permits.
func (l *lane) propose(ctx context.Context, layout shard.Layout, s shard.Shard, floor int64) (shard.Observation, error) {
	proposal, err := l.core.proposal(layout, s, floor)
	if err != nil {
		return shard.Observation{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.core.client.cfg.CallTimeout)
	defer cancel()
	e, err := l.endpoint(ctx)
	if err != nil {
		return shard.Observation{}, err
	}
	req := &script.TakeRequest{Proposal: proposal, Known: l.core.knownFor()}
	var sent int64
	var reply script.TakeReply
	for tries := 1; ; tries++ {
		sent = l.core.client.now()
		req.Seen, req.Deadline = l.remembers(sent), l.deadline(layout.Epoch)
		reply, err = e.scripts.Take(ctx, l.ref, req)
		l.reportSince(e, sent, err)
		if err == nil && reply.Status == script.Absent {
			if err = l.insist(ctx, &reply, tries); err == nil {
				continue
			}
		}
		break
	}
	if err != nil {
		return shard.Observation{}, err
	}
	l.known.learn(sent, l.core.client.now(), layout.Span(), &reply) // a raised share is used at once
	return shard.Observation{
		Seen:   true,
		Epoch:  reply.Epoch,
		Start:  reply.Start,
		Share:  reply.Share,
		Closed: reply.Closed > 0,
	}, nil
}

// settle stores that all capacity has arrived.
func (r *register) settle(ctx context.Context, layout shard.Layout) error {
	settled := layout.Settle()
	sent := r.core.client.elapsed()
	agreed, err := r.store(ctx, layout, settled)
	if err != nil {
		return err
	}
	if !agreed {
		return r.sync(ctx)
	}
	return r.adoptAs(settled, sent)
}

// adoptAs makes a layout that this process has stored the one it works with; sent is when it began to.
func (r *register) adoptAs(layout shard.Layout, sent int64) error {
	if err := r.core.adopt(layout); err != nil {
		return err
	}
	r.confirmed(layout.Epoch, sent)
	return nil
}

// store replaces a layout by the next, as an exchange of its own, and reports whether that may be used.
func (r *register) store(ctx context.Context, old, next shard.Layout) (agreed bool, err error) {
	if err := r.begin(ctx); err != nil {
		return false, err
	}
	defer r.end()
	// Others may have replaced what was read last. Where nothing was, it must still be nothing.
	r.strict = false
	maps.DeleteFunc(r.there, func(_ shard.Location, epoch int64) bool { return epoch > 0 })
	_, agreed, err = r.write(ctx, r.anchorOf(old), old.Epoch, next)
	return agreed, err
}

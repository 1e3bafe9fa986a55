package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// How much longer than two windows things are kept. The head of a live shard is kept for headKeep,
// so that a rest makes no shard absent. A shard that gave its capacity away remembers that for
// stateKeep; that is more than confirmFor, so whoever is behind still finds the memory of it, or
// must confirm its layout first.
const (
	headKeep       = 24 * time.Hour
	stateKeep      = time.Minute
	recordKeep     = 7 * 24 * time.Hour // and two windows
	participantTTL = time.Minute
	leastPatience  = 2 * time.Second
	agreeRounds    = 8 // how often it is read again when its places do not agree
	// So long a record that is older than what shards obey is left to a process that knows better:
	// one that is in use reads the record within confirmLimitEvery.
	outdatedFor = confirmLimitEvery + leastPatience + 3*time.Second
	// so long after a limit was declared first its places must all be reached, and are waited for
	newFor = time.Second
)

var (
	errNoRecord   = errors.New("the node that anchors the limit's layout does not answer, and no other knows it")
	errDisputed   = errors.New("the places of the limit's layout keep changing; try again")
	errUnreadable = errors.New("the layout that is stored for this limit cannot be read by this version")
	errOvertaken  = errors.New("shards obey a later layout than the record has; a process that knows it is waited for")
)

// register is the record of a limit's layout in Redis: one anchor, where it is
// declared and changed by compare-and-set, and two copies that tell it while
// the anchor is away. Decisions do not need it.
//
// The record names its anchor, so processes that list different nodes agree on it. To move it, a
// layout that names the new place is written at the old one, and stays there to tell the way. A
// layout is used only after every place that this process could reach had taken it or already led
// to the same anchor: so two processes that began at different places notice before they use what
// they wrote. While a limit is new, a place that cannot be reached is waited for.
type register struct {
	core   *core
	family bool // the record of a family: settled at once, because its keys never move capacity

	belief   atomic.Pointer[belief] // what the anchor held when it was last asked; nil: it never was
	askedAt  atomic.Int64           // when it last answered; 0 never
	failedAt atomic.Int64           // when the limit could not be looked up, if that was the last try; else 0
	bornAt   atomic.Int64           // since when the limit is known to exist, on the client's clock; 0: it is not
	highest  atomic.Int64           // highest epoch that a shard has shown
	clock    atomic.Int64           // what the anchor's clock said when it was last read, in microseconds
	// since when shards are known to obey a later layout than the record's; 0: they do not; only of
	// whose turn it is
	outdated     int64
	participants atomic.Int64
	syncing      atomic.Bool
	driving      atomic.Bool
	informing    atomic.Bool   // a denied call waits for the record
	driven       atomic.Int64  // the epoch of the layout that the driver has
	leads        atomic.Int64  // the epoch of the layout that this process made last
	stirred      atomic.Bool   // permits came back to shards that give capacity up
	poked        chan struct{} // wakes the driver
	proposing    chan struct{} // holds one token: one change at a time
	turn         chan struct{} // holds one token: one exchange at a time
	// why the limit could not be looked up when that was last tried; nil: it could
	failure atomic.Pointer[error]
	// whether a place that cannot be reached is waited for; only of whose turn it is
	strict bool
	// the epoch that each place had when it was read; 0: none, or it could not be read; only of
	// whose turn it is
	there map[shard.Location]int64
}

func newRegister(c *core, family bool) *register {
	r := &register{core: c, family: family, proposing: make(chan struct{}, 1), turn: make(chan struct{}, 1),
		poked: make(chan struct{}, 1)}
	r.participants.Store(1)
	return r
}

// refresh has the record read again in the background in good time.
func (r *register) refresh() {
	every := confirmLimitEvery
	if r.family {
		every = confirmFamilyEvery
	}
	if at := r.askedAt.Load(); at == 0 || r.core.client.now()-at > int64(every) {
		r.syncSoon()
	}
}

// age is how long the limit is known to exist. That this process has long wanted
// to declare it, while Redis was away, is no reason to think that it did.
func (r *register) age() time.Duration {
	born := r.bornAt.Load()
	if born == 0 {
		return 0
	}
	return time.Duration(r.core.client.now() - born)
}

// begin waits until no other exchange is under way, at most until ctx ends.
func (r *register) begin(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *register) end() { <-r.turn }

// confirmed notes that the anchor held, or was given, a layout of this epoch; sent is when that
// began.
func (r *register) confirmed(epoch, sent int64) {
	r.believe(epoch, sent)
	r.failure.Store(nil)
	r.failedAt.Store(0)
	r.askedAt.Store(r.core.client.now())
}

// behind notes that a shard is at a later epoch than the layout this process works with.
func (r *register) behind(epoch int64) {
	for {
		old := r.highest.Load()
		if old >= epoch || r.highest.CompareAndSwap(old, epoch) {
			break
		}
	}
	r.syncSoon()
}

// syncSoon looks the record up in the background, unless that is under way.
func (r *register) syncSoon() {
	if !r.syncing.CompareAndSwap(false, true) {
		return
	}
	r.core.client.spawn(func(ctx context.Context) {
		defer r.syncing.Store(false)
		for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
			if err := r.bring(ctx); err == nil || errors.Is(err, errDeleted) {
				return
			}
			// The spread keeps processes that lost the same node from asking in step.
			if !clock.Sleep(ctx, pause+rand.N(pause)) {
				return
			}
		}
	})
}

// join makes the limiter usable: as it is stored, as declared, or, while Redis is
// away, as soon as it comes back. It fails only if that can never be.
func (r *register) join(ctx context.Context, limit Limit) error {
	r.core.declare(limit)
	if t := r.core.table.Load(); t != nil && limit.Revision <= t.limit.Revision {
		return nil
	}
	err := r.bring(ctx)
	for errors.Is(err, errDeleted) { // just now, by another handle
		err = r.revive(ctx)
	}
	switch {
	case err == nil:
		return nil
	case r.core.client.closed.Load():
		return ErrClosed
	case errors.Is(err, errUnreadable) || errors.Is(err, script.ErrForeignState):
		anchor := r.anchor()
		return &ShardError{Limiter: r.core.name, Shard: shard.Tag(anchor.Slot), Node: anchor.Node, Err: err}
	}
	r.core.client.cfg.Logger.Warn("limiter is not declared yet", "limiter", r.core.name, "err", err)
	r.syncSoon()
	return nil
}

// bring is sync, and replaces the stored limit if the code declares a higher revision.
func (r *register) bring(ctx context.Context) error {
	if err := r.sync(ctx); err != nil {
		r.fails(err)
		return err
	}
	t, declared := r.core.table.Load(), r.core.declaration()
	if t == nil {
		return errDeleted // just now
	}
	if declared.Revision <= t.limit.Revision {
		return nil
	}
	return r.change(ctx, declared, func(stored Limit) bool { return stored.Revision >= declared.Revision })
}

// fails notes why the limit could not be looked up.
func (r *register) fails(err error) {
	r.failure.Store(&err)
	r.failedAt.Store(r.core.client.now())
}

// absence tells why the limit is not known yet.
func (r *register) absence() error {
	if err := r.failure.Load(); err != nil {
		return *err
	}
	return errNoRecord // it is being looked up for the first time
}

// look reads the stored limit without declaring anything.
func (r *register) look(ctx context.Context) (Limit, error) {
	ctx, cancel := context.WithTimeout(ctx, r.core.client.patience())
	defer cancel()
	found, at := r.survey(ctx)
	layout, err := newest(found)
	if err != nil {
		return Limit{}, err
	}
	if layout == nil {
		if found[at].err != nil {
			return Limit{}, errors.Join(ErrUnavailable, found[at].err)
		}
		return Limit{}, fmt.Errorf("%w: %q", ErrNotFound, r.core.name)
	}
	return limitOf(*layout)
}

// drop removes the record everywhere, and reports whether any place of it could be reached. It
// holds the turn.
func (r *register) drop(ctx context.Context) (errs []error, reached bool) {
	ctx, cancel := context.WithTimeout(ctx, r.core.client.patience())
	defer cancel()
	for _, p := range r.places() {
		err := r.run(ctx, telemetry.DropRecord, p,
			func(ctx context.Context, e *script.Endpoint, ref script.RecordRef) error {
				return e.DropRecord(ctx, ref)
			})
		reached = reached || err == nil || node.IsAnswer(err)
		if err != nil {
			errs = append(errs, &ShardError{Limiter: r.core.name, Shard: shard.Tag(p.Slot), Node: p.Node, Err: err})
		}
	}
	return errs, reached
}

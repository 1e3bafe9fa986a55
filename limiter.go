package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
)

// Limiter is a handle on one named limit. It is safe for concurrent use, and
// cheap: handles of one name share all state.
//
// Most callers want Allow (answer now) or Wait (block until it is their turn).
type Limiter struct {
	core   *core   // of a key of a family: the family's
	member *member // of the participant it belongs to; nil for a key

	// Only for a key of a family:
	family  *Family
	key     keyed
	invalid error // why it cannot be used
}

// hold returns what the process has of the limit, for a call that releases its core when it is
// over. Of a key it has that only while somebody holds it, or it knows something to be remembered.
func (l *Limiter) hold() *member {
	if l.family == nil {
		return l.member
	}
	return &l.family.keys.hold(l.family, l.key, l.invalid).member
}

// same reports whether two limiters are of one limit.
func (l *Limiter) same(o *Limiter) bool {
	return l.core == o.core && l.family == o.family && l.key == o.key
}

// As is the same limiter, seen by another participant: the permits it grants are
// charged to that participant's part of the limit. A gateway that calls for many
// tenants uses one for each, and none of them takes the part of the others. weight
// is relative to the other participants, MinWeight to MaxWeight; a participant
// should have the same wherever it calls from.
//
// As does no I/O and is cheap. Of a limit a Client remembers 16,384 participants. Calls for a
// participant with an impossible name (1 to MaxName bytes) or weight return ErrInvalidName or
// ErrInvalidConfig. Take names from what you have authenticated: the part of somebody who invents
// names is that of all his names together. Keys of a Family know no participants: As is the same
// limiter.
func (l *Limiter) As(participant string, weight float64) *Limiter {
	who := newParticipant(participant, weight)
	switch {
	case l.family != nil && who.invalid == nil:
		return l
	case l.family != nil:
		return &Limiter{core: l.core, family: l.family, key: l.key, invalid: who.invalid}
	case who.invalid != nil:
		return &Limiter{core: l.core, member: newMember(l.core, who)}
	}
	return &Limiter{core: l.core, member: l.core.members.of(who)}
}

// Name is the name the limiter was opened under; for a key of a family, "family/key".
func (l *Limiter) Name() string {
	if l.family != nil {
		return l.core.name + "/" + l.key.key
	}
	return l.core.name
}

// Allow asks for one permit. See AllowN.
func (l *Limiter) Allow(ctx context.Context) (d Decision, err error) {
	err = l.allow(ctx, 1, false, &d)
	return d, err
}

// AllowN asks for n permits, all or nothing, and answers at once.
//
// Errors: ErrInvalidPermits for n < 1, ErrExceedsLimit if the whole limit is
// less than n, ErrUnavailable if no shard answered and the policy is FailClosed,
// ErrClosed, or the cause of the end of ctx. What a call is granted after its context has ended is
// given back when the reply comes; if none comes, it stays used for a window.
func (l *Limiter) AllowN(ctx context.Context, n int64) (d Decision, err error) {
	err = l.allow(ctx, n, false, &d)
	return d, err
}

// AllowUpTo asks for as many permits as there are, at most n. Granted tells
// how many those were; with none the call is denied. Errors are those of
// AllowN, except that n may be more than the limit.
func (l *Limiter) AllowUpTo(ctx context.Context, n int64) (d Decision, err error) {
	err = l.allow(ctx, n, true, &d)
	return d, err
}

func (l *Limiter) allow(ctx context.Context, n int64, upTo bool, d *Decision) error {
	if l.deniedBefore(ctx, n, upTo, d) {
		return nil
	}
	if l.crowdedOut(n) {
		return l.family.shed(ctx, d)
	}
	m := l.hold()
	defer m.core.release()
	if !upTo && m.leases.current.Load() != nil {
		return m.fromLease(ctx, n, d)
	}
	return m.decide(ctx, n, upTo, 0, d)
}

// Wait blocks until one permit was granted. See WaitN.
func (l *Limiter) Wait(ctx context.Context) error { return l.WaitN(ctx, 1) }

// WaitN blocks until n permits were granted together. Calls of one process are served first come,
// first served. One that wants more than one permit and is denied reserves them, as Reserve does,
// so callers elsewhere that want less do not starve it. If it is certain that the permits cannot
// come before the deadline of ctx, it returns ErrWaitTooLong at once. Other errors are those of
// AllowN; under WaitOut it waits on instead of returning ErrUnavailable.
// Acquire is the same, and returns the Decision.
func (l *Limiter) WaitN(ctx context.Context, n int64) error {
	_, err := l.Acquire(ctx, n)
	return err
}

// Limit is the limit in force, as far as this process has heard; for a key of a Family the one that
// this Limiter brings. Before the limiter could be declared it is the limit that the code declares.
// Shards is how many there are, whoever chose that. SetLimit with the number that was chosen leaves
// it free to be chosen anew.
func (l *Limiter) Limit() Limit {
	c := l.hold().core
	defer c.release()
	return c.limitNow()
}

// Peek reads the state of every shard. It consumes nothing and writes nothing. What it calls free
// is what AllowN would be granted at that instant beside all that is reserved, as long as no
// participants contend. Shards that do not answer within Config.CallTimeout carry an Err;
// ErrUnavailable means that none did.
func (l *Limiter) Peek(ctx context.Context) (State, error) {
	m := l.hold()
	defer m.core.release()
	return m.peek(ctx)
}

// SetLimit changes the limit for every process, while it is in use: permits,
// window, burst, algorithm and number of shards. What was used stays in the log, so the change
// neither lets a burst through nor forgets one. Shards 0 chooses their number
// anew; the revision never falls. Every window that begins after SetLimit has
// returned obeys the new limit. Capacity that moves between shards
// follows as the log empties, within one window; until then less than the new
// limit may be available. Of several changes at once one wins, as a whole.
//
// It returns when every shard has adopted the change, or a later one that came before it was
// through. If some could not be reached, the change is stored and will be finished by whichever
// process sees them next; the error is then a *ShardError for each. ErrUnavailable means that
// nothing was changed, because no majority of the nodes that keep the records answers. The limit of
// a key of a Family is the family's, or comes with the call: ErrFamilyLimit.
func (l *Limiter) SetLimit(ctx context.Context, limit Limit) error {
	if err := l.standsAlone("SetLimit"); err != nil {
		return err
	}
	if err := limit.validate(); err != nil {
		return err
	}
	if r := l.core.known(); r != nil && r.layout.Auto && limit.Shards == r.limit.Shards {
		limit.Shards = 0 // nobody asked for that number
	}
	return l.core.register.Change(ctx, limit.wanted())
}

// Reset forgets all usage, and lifts a quarantine: the whole limit is free at
// once. A shard that could not be reached keeps its log; the error is then a
// *ShardError for each.
func (l *Limiter) Reset(ctx context.Context) error {
	c := l.hold().core
	defer c.release()
	defer c.members.restartWaiters() // there is room for those who wait
	if c.limitNow().Scope == PerParticipant {
		return c.resetPerParticipant(ctx)
	}
	defer c.record().Stir()
	return c.everyShard(ctx, c.client.nodes.Patience(), func(ctx context.Context, ln *lane.Lane) error {
		err := ln.Clear(ctx)
		if err == nil {
			c.ahead.Store(nil)
		}
		return err
	})
}

func (l *Limiter) standsAlone(method string) error {
	if l.core.client.closed.Load() {
		return ErrClosed
	}
	if f := l.family; f != nil {
		return fmt.Errorf("%w: %s of a key of family %q: the limit of a key comes with its calls (LimiterWith), and "+
			"what was used expires by itself (or by Reset)", ErrFamilyLimit, method, f.core.name)
	}
	return nil
}

// everyShard runs an operation on all shards of the layout at once, for at most the given time.
func (c *core) everyShard(ctx context.Context, most time.Duration, op func(context.Context, *lane.Lane) error) error {
	if c.invalid != nil {
		return c.invalid
	}
	if c.client.closed.Load() {
		return ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r, err := c.stored()
	if err != nil {
		return err
	}
	errs := make([]error, len(r.layout.Shards))
	var wg sync.WaitGroup
	for i, s := range r.layout.Shards {
		ln := c.laneTo(s)
		wg.Go(func() {
			err := node.ErrAway
			if _, unknown := algorithmNamed(s.Algorithm); unknown != nil {
				err = unknown // this version does not know its keys
			} else if ln != nil {
				err = op(ctx, ln)
			}
			if err != nil {
				errs[i] = c.FailedAt(s.Site().Location, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (m *member) peek(ctx context.Context) (State, error) {
	c := m.core
	if c.invalid != nil {
		return State{}, c.invalid
	}
	r, err := c.stored()
	if r == nil {
		if c.client.closed.Load() {
			return State{}, ErrClosed
		}
		if errors.Is(err, register.ErrDeleted) {
			return State{}, err
		}
		limit := c.declaration()
		if limit.Scope == PerParticipant {
			return m.peekPerParticipant(limit, 0), nil
		}
		return State{Limit: limit}, err
	}
	if r.limit.Scope == PerParticipant {
		return m.peekPerParticipant(r.limit, r.layout.Epoch), nil
	}
	st := State{Limit: r.limit, Epoch: r.layout.Epoch, Settled: r.layout.Settled,
		Participants: c.record().Participants(), Records: slices.Clone(c.client.records.Book.Nodes())}
	if f := r.layout.Fence; f != nil {
		st.Takeover, st.Lost = true, slices.Clone(f.Lost)
	}
	st.Shards = make([]ShardState, len(r.layout.Shards))
	next, resets := make([]time.Duration, len(st.Shards)), make([]time.Duration, len(st.Shards))
	for i, s := range r.layout.Shards {
		st.Shards[i] = unanswered(s)
		if n := c.client.nodes.Node(s.Node); n != nil && !n.Ready(s.Slot) {
			st.Shards[i].Err = n.Away(s.Slot)
		}
	}
	err = c.everyShard(ctx, c.client.cfg.CallTimeout, func(ctx context.Context, ln *lane.Lane) error {
		peek, err := ln.Peek(ctx, c.client.cfg.CallTimeout)
		i := r.layout.Index(siteOf(ln))
		if i < 0 {
			return err // the layout changed in between
		}
		s := &st.Shards[i]
		s.Err = err
		if err == nil {
			if peek.Closed == 0 {
				reopens(ln, &peek, r.layout)
			}
			s.fill(&peek, r.layout, cmp.Or(r.layout.Shards[i].Burst, s.Target))
			reopens(ln, &peek, r.layout)
			next[i], resets[i] = comesBack(&peek, ln.Room(&peek)), peek.Reset
		}
		return err
	})
	if !st.sum(next, resets) {
		return st, errors.Join(ErrUnavailable, err)
	}
	return st, nil
}

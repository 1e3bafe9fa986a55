package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/shard"
)

// Limiter is a handle on one limit, or on that of one key: a small value.
type Limiter struct {
	Target *Target // of a key of a family: the family's
	member *Member // of the participant it belongs to; nil for a key

	// Only for a key of a family:
	family  *Family
	key     limit.Keyed
	invalid error // why it cannot be used
}

// Hold returns what the process has of the limit, for a call that releases its target when it is
// over. Of a key it has that only while somebody holds it, or it knows something to be remembered.
func (l *Limiter) Hold() *Member {
	if l.family == nil {
		return l.member
	}
	return &l.family.keys.hold(l.family, l.key, l.invalid).member
}

// Same reports whether two limiters are of one limit.
func (l *Limiter) Same(o *Limiter) bool {
	return l.Target == o.Target && l.family == o.family && l.key == o.key
}

// Contradicts reports whether two limiters bring different limits for one key.
func (l *Limiter) Contradicts(o *Limiter) bool {
	return l.family != nil && l.family == o.family && l.key.Key == o.key.Key && l.key.Came != o.key.Came
}

// As returns the limiter seen by another participant.
func (l *Limiter) As(participant string, weight float64) Limiter {
	own, who := *l, limit.NewParticipant(participant, weight)
	switch {
	case l.family != nil:
		own.invalid = cmp.Or(who.Invalid, l.invalid)
	case who.Invalid != nil:
		own.member = NewMember(l.Target, who)
	default:
		own.member = l.Target.Members.of(who)
	}
	return own
}

// Caller returns whose calls it makes: of a limit the participant, of a family the key.
func (l *Limiter) Caller() (key, participant string) {
	if l.family != nil {
		return l.key.Key, ""
	}
	return "", l.member.name
}

// Decided reports whether a decision is about the limit.
func (l *Limiter) Decided(d *Decision) bool {
	c := d.Target
	return l.Target == c || c != nil && l.family != nil && l.family == c.Of && l.key == c.Key
}

// Name returns the name of the limit; of a key "family/key".
func (l *Limiter) Name() string {
	if l.family != nil {
		return l.Target.Name + "/" + l.key.Key
	}
	return l.Target.Name
}

// Allow asks for n permits, all or nothing or up to so many, and fills in the Decision.
func (l *Limiter) Allow(ctx context.Context, n int64, upTo bool, d *Decision) error {
	if l.family == nil {
		return l.member.Decide(ctx, n, upTo, 0, d)
	}
	q := call{n: n, upTo: upTo}
	if answered, err := l.withoutTarget(ctx, &q, d); answered {
		return err
	}
	m := l.Hold()
	defer m.Target.Release()
	return m.decide(ctx, q, d)
}

// Limit returns the limit in force, as far as this process has heard.
func (l *Limiter) Limit() limit.Limit {
	c := l.Hold().Target
	defer c.Release()
	return c.LimitNow()
}

// Peek reads the state of every shard.
func (l *Limiter) Peek(ctx context.Context) (State, error) {
	m := l.Hold()
	defer m.Target.Release()
	return m.peek(ctx)
}

// SetLimit changes the limit for every process.
func (l *Limiter) SetLimit(ctx context.Context, limit limit.Limit) error {
	if err := l.standsAlone(ctx, "SetLimit"); err != nil {
		return err
	}
	if err := limit.Validate(); err != nil {
		return err
	}
	want := limit.Wanted()
	if r := l.Target.Known(); r != nil && r.Layout.Auto && limit.Shards == r.Limit.Shards {
		want.Auto = true // nobody asked for that number
	}
	return l.Target.Process.Plainly(l.Target.Register.Change(ctx, want))
}

// Reset forgets all usage, and shortens a quarantine.
func (l *Limiter) Reset(ctx context.Context) error {
	c := l.Hold().Target
	defer c.Release()
	defer func() { // there is room for those who wait, whatever limit they bring for the key
		for _, c := range c.alike() {
			c.Eased()
		}
	}()
	if c.LimitNow().Scope == limit.PerParticipant {
		return resetPerParticipant(ctx, c)
	}
	return c.EveryShard(ctx, c.Process.Nodes.Patience(), func(ctx context.Context, sh *dispatch.Shard) error {
		err := sh.Clear(ctx)
		if err == nil {
			c.ahead.Store(nil) // before others answer, which may take long
		}
		return err
	})
}

func (l *Limiter) standsAlone(ctx context.Context, method string) error {
	if err := l.Target.Process.Gone(ctx, nil); err != nil {
		return err
	}
	if f := l.family; f != nil {
		return fmt.Errorf("%w: %s of a key of family %q: the limit of a key comes with its calls (LimiterWith), and "+
			"what was used expires by itself (or by Reset)", limit.ErrFamilyLimit, method, f.Target.Name)
	}
	return nil
}

func (m *Member) peek(ctx context.Context) (State, error) {
	c := m.Target
	if err := cmp.Or(c.Invalid, c.Process.Gone(ctx, nil)); err != nil {
		return State{}, err
	}
	r, err := c.Stored()
	switch of := c.LimitOf(r); {
	case errors.Is(err, register.ErrDeleted):
		return State{}, err
	case of.Scope == limit.PerParticipant:
		return peekPerParticipant(m, r), nil
	case r == nil:
		return State{Limit: *of}, err
	}
	st := unasked(c, r)
	err = c.EveryShard(ctx, c.Process.Config.CallTimeout, func(ctx context.Context, sh *dispatch.Shard) error {
		peek, err := sh.Peek(ctx, c.Process.Config.CallTimeout)
		i := r.Layout.Index(sh.Site)
		if i < 0 {
			return err // the layout changed in between
		}
		s := &st.Shards[i]
		s.Err = err
		if err == nil {
			if peek.Closed == 0 {
				reopens(sh, &peek, r.Layout)
			}
			s.fill(&peek, r.Layout, cmp.Or(r.Layout.Shards[i].Burst, s.Target))
			reopens(sh, &peek, r.Layout)
			s.reset = peek.Reset
			if releases := forecast.Releases(peek.Free, &peek, 0, sh.Room(&peek)); len(releases) > 0 {
				s.next = time.Duration(releases[0].At)
			}
		}
		return err
	})
	if !st.sum() {
		return st, c.Process.Plainly(register.Unavailable(err))
	}
	return st, nil
}

// unasked returns the state of a limit whose shards have told nothing yet.
func unasked(c *Target, r *limit.Routes) State {
	st := State{Limit: r.Limit, Epoch: r.Layout.Epoch, Settled: r.Layout.Settled,
		Participants: c.Record().Participants.Load(), Records: slices.Clone(c.Process.Records.Book.Known().Names)}
	if f := r.Layout.Fence; f != nil {
		st.Takeover, st.Lost = true, slices.Clone(f.Lost)
	}
	st.Shards = make([]ShardState, len(r.Layout.Shards))
	for i, s := range r.Layout.Shards {
		algorithm, _ := limit.AlgorithmNamed(s.Algorithm) // one that this version does not know prints as such
		st.Shards[i] = ShardState{Tag: shard.Tag(s.Slot), Slot: s.Slot, Node: s.Node, Algorithm: algorithm,
			Target: s.Share, Err: node.ErrAway}
		switch n := c.Process.Nodes.Node(s.Node); {
		case n == nil:
			st.Shards[i].Err = node.ErrStranger
		case !n.Ready(s.Slot):
			st.Shards[i].Err = n.Away(s.Slot)
		}
	}
	return st
}

// Delete removes the limit and its usage from Redis.
func (l *Limiter) Delete(ctx context.Context) error {
	if err := l.standsAlone(ctx, "Delete"); err != nil {
		return err
	}
	return l.Target.Process.Plainly(l.Target.Delete(ctx))
}

// Rebalance arranges the limit anew over the nodes that do not drain.
func (l *Limiter) Rebalance(ctx context.Context) error {
	if err := l.standsAlone(ctx, "Rebalance"); err != nil {
		return err
	}
	return l.Target.Process.Plainly(l.Target.Register.Rebalance(ctx))
}

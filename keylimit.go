package shardlimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardlimit/shardlimit/shard"
)

// This file is about keys of a family that have a limit of their own.

// MaxOwnLimits is how many keys of a family may have a limit of their own. Where more need one, as
// plans that customers pay for, each plan is a Family.
const MaxOwnLimits = shard.MaxOwn

// keyPrefix is what ids of the family's keys begin with.
func (f *Family) keyPrefix() string {
	return "k:" + strconv.Itoa(len(f.core.name)) + ":" + f.core.name + ":"
}

// OwnLimits returns the keys that have a limit of their own, with that, as far as this process has
// heard.
func (f *Family) OwnLimits() map[string]Limit {
	own := make(map[string]Limit)
	r := f.core.known()
	if r == nil {
		return own
	}
	for _, o := range r.layout.Keys.Own {
		if o.Terms != (shard.Terms{}) {
			own[strings.TrimPrefix(o.ID, f.keyPrefix())] = r.limit.with(o.Terms)
		}
	}
	return own
}

// UnsetLimit gives the key of a Family the family's limit again, after SetLimit gave it one of its
// own. It fails as SetLimit does; for a limiter that is no key with ErrNoKey.
func (l *Limiter) UnsetLimit(ctx context.Context) error {
	if l.core.family == nil {
		return fmt.Errorf("%w: limiter %q", ErrNoKey, l.core.name)
	}
	return l.core.changeOwn(ctx, func(shard.Spec) (shard.Terms, error) { return shard.Terms{}, nil })
}

// setOwn gives the key a limit of its own.
func (c *core) setOwn(ctx context.Context, limit Limit) error {
	if err := limit.validate(); err != nil {
		return err
	}
	if limit.Revision != 0 {
		return fmt.Errorf("%w: Revision is %d, the limit of one key has none", ErrInvalidLimit, limit.Revision)
	}
	return c.changeOwn(ctx, func(family shard.Spec) (shard.Terms, error) {
		want := limit.wanted().Spec
		if want.Algorithm != family.Algorithm || want.Scope != family.Scope {
			return shard.Terms{}, fmt.Errorf("%w: Algorithm and Scope of a key must be those of its family, %s",
				ErrInvalidLimit, strings.TrimSpace(family.Algorithm+" "+family.Scope))
		}
		return shard.Terms{Permits: want.Permits, Window: want.Window, Burst: want.Burst, Lease: want.Lease,
			Mode: want.Mode}, nil
	})
}

// changeOwn stores what want returns as the key's own limit, and lets the key's shards hear.
func (c *core) changeOwn(ctx context.Context, want func(family shard.Spec) (shard.Terms, error)) error {
	switch {
	case c.client.closed.Load():
		return ErrClosed
	case c.invalid != nil:
		return c.invalid
	}
	if err := c.record().ChangeOwn(ctx, c.id, want); err != nil {
		return ownError(c.family, err)
	}
	c.family.update(c)
	if r := c.routes.Load(); r == nil || r.limit.Scope == PerParticipant {
		return nil // no shard knows of it
	}
	return c.record().Tell(ctx, c)
}

// ownError says of an own limit that cannot be under what its family is to have which key it is of.
func ownError(f *Family, err error) error {
	var own *shard.OwnError
	switch {
	case errors.As(err, &own):
		return fmt.Errorf("%w: key %q has a limit of its own, which could not be: %w", ErrInvalidLimit,
			strings.TrimPrefix(own.ID, f.keyPrefix()), own.Err)
	case errors.Is(err, shard.ErrTooManyOwn):
		return errors.Join(ErrInvalidLimit, err)
	}
	return err
}

// with is the limit of a key with these terms, in a family that has l.
func (l Limit) with(t shard.Terms) Limit {
	l.Permits, l.Per, l.Burst, l.Lease = t.Permits, t.Window, t.Burst, t.Lease
	l.Mode, _ = modeNamed(t.Mode) // one of a later version has a number that no mode has
	return l
}

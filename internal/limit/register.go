package limit

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Enlist gives a core the register of its own record.
func (c *Core) Enlist(family bool) {
	c.Register = register.New(c.Process.Records, register.Subject{
		Limit: recorded{c}, Shards: recorded{c}, Name: c.Name, ID: c.ID, Family: family, Metrics: c.Metrics})
}

// Join makes the limiter usable, as it is stored or as declared.
func (c *Core) Join(ctx context.Context, limit Limit) error {
	c.mu.Lock()
	if limit.Revision > c.declared.Revision {
		c.declared = limit
	}
	c.mu.Unlock()
	if r := c.Routes.Load(); r != nil && limit.Revision <= r.Limit.Revision {
		return nil
	}
	err := c.Register.Join(ctx)
	if errors.Is(err, register.ErrUnreadable) || errors.Is(err, script.ErrForeignState) {
		at := shard.Location{}
		if names := c.Process.Records.Book.Known().Names; len(names) > 0 { // one of the places, to name in the error
			at.Node = names[0]
		}
		return c.FailedAt(at, err)
	}
	return err
}

// Delete removes what is stored of the limit, and its routes.
func (c *Core) Delete(ctx context.Context) error {
	err := c.Register.Delete(ctx, func(ctx context.Context) error {
		return c.EveryShard(ctx, c.Process.Nodes.Patience(),
			func(ctx context.Context, sh *dispatch.Shard) error { return sh.Drop(ctx) })
	})
	if errors.Is(err, register.ErrDeleted) || !c.Record().Deleted() {
		return err
	}
	c.mu.Lock()
	c.Routes.Store(nil)
	c.mu.Unlock()
	c.Process.deleted(c)
	c.callers.Freed(true)
	return err
}

// Wanted returns the limit as a register knows it.
func (l Limit) Wanted() register.Wanted {
	return register.Wanted{
		Spec: shard.Spec{
			Permits: l.Permits, Window: l.Per, Algorithm: l.Algorithm.String(), Burst: l.Burst, Revision: l.Revision,
			Lease: l.Lease,
			Scope: scopeNames.stored(uint8(l.Scope)), Mode: modeNames.stored(uint8(l.Mode)), Auto: l.Shards == 0,
		},
		Shards: l.Shards,
	}
}

// LimitOf returns the limit of a layout. One that no version could have declared is unreadable.
func LimitOf(l shard.Layout) (Limit, error) {
	s := l.Spec
	algorithm, err := AlgorithmNamed(s.Algorithm)
	scope, unknown := named[Scope](scopeNames, s.Scope, "scope")
	mode, newer := named[Mode](modeNames, s.Mode, "mode")
	limit := Limit{Permits: s.Permits, Per: s.Window, Algorithm: algorithm, Burst: s.Burst, Shards: len(l.Live()),
		Scope: scope, Lease: s.Lease, Revision: s.Revision, Mode: mode}
	if err = errors.Join(err, unknown, newer); err == nil {
		if err = limit.Validate(); err != nil {
			err = fmt.Errorf("%w: %w", register.ErrUnreadable, err)
		}
	}
	return limit, err
}

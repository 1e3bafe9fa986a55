package register

import (
	"context"

	"github.com/shardlimit/shardlimit/shard"
)

// This file is about keys of a family that have a limit of their own.

// ChangeOwn gives a key of a family a limit of its own: the terms that want returns under what the
// family has. With zero terms the key has its family's limit again.
func (r *Register) ChangeOwn(ctx context.Context, id string, want func(family shard.Spec) (shard.Terms, error)) error {
	_, err := r.succeed(ctx, func(old shard.Layout) (*shard.Layout, error) {
		terms, err := want(old.Spec())
		if err != nil {
			return nil, err
		}
		keys, err := old.KeysWith(id, terms)
		if err != nil || keys == nil {
			return nil, err
		}
		next, err := old.Change(r.nextEpoch(old), old.Spec(), old.Live())
		next.Keys = keys
		return &next, err
	})
	return err
}

// possible returns why a family cannot be so, if a key's own limit is none under what the family
// would have.
func (r *Register) possible(family shard.Layout) error {
	for _, o := range family.Keys.Own {
		if err := r.Limit.Possible(o.Terms.Over(family.Spec())); err != nil {
			return &shard.OwnError{ID: o.ID, Err: err}
		}
	}
	return nil
}

// Tell lets the shards of a key hear of its layout, so that every process hears of it that calls
// for the key. It returns why one did not answer.
func (r *Register) Tell(ctx context.Context, k Key) error {
	ctx, cancel := context.WithTimeout(ctx, r.env.Nodes.CallTimeout)
	defer cancel()
	l := k.Layout()
	if l == nil {
		return ErrDeleted // just now
	}
	var floors []int64 // where nothing has to move, each shard is entitled to its share
	if l.Settled {
		for _, s := range l.Shards {
			floors = append(floors, s.Share)
		}
	}
	return r.offer(ctx, k, *l, make([]shard.Observation, len(l.Shards)), floors)
}

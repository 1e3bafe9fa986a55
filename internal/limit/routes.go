package limit

import (
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
)

// Routes are a plan with its shards. They never change; a new layout has new ones.
type Routes struct {
	*Plan
	Shards []*dispatch.Shard // the live ones on known nodes, in the order of the layout
	Order  []*dispatch.Shard // the same in this participant's order of preference
	Split  bool              // whether the limit has more than one shard
	closed error             // why no shard can be used though nodes answer; nil: none is kept from use

	Record *register.Reader   // that holds the layout, or what it follows from
	only   [1]*dispatch.Shard // backs Shards, as a rule
}

// Heard reports whether this process has heard from a shard.
func (r *Routes) Heard() bool {
	return slices.ContainsFunc(r.Shards, func(sh *dispatch.Shard) bool {
		_, heard := sh.Known.Free()
		return heard
	})
}

// Free adds up what was free on the shards this process has heard from.
func (r *Routes) Free() (n int64) {
	for _, sh := range r.Shards {
		free, _ := sh.Known.Free()
		n += free
	}
	return n
}

// Expected adds up what is free now as far as this process knows. A shard that it has not heard
// from, or whose log has emptied since, has its share, unless its node is away.
func (r *Routes) Expected(now int64) (n int64) {
	for _, sh := range r.Shards {
		n += sh.Present(now)
	}
	return min(n, r.Limit.Most())
}

// NextAfter returns the time until one of the shards that have nothing has a permit again, 0 if
// that is not known.
func (r *Routes) NextAfter(now int64) time.Duration {
	var next time.Duration
	for _, sh := range r.Shards {
		if after := time.Duration(sh.Known.FreeAt.Load() - now); after > 0 && (next == 0 || after < next) {
			next = after
		}
	}
	return next
}

// ResetAfter returns the time until no shard that this process has heard from has a permit in its
// log.
func (r *Routes) ResetAfter(now int64) time.Duration {
	var last int64
	for _, sh := range r.Shards {
		last = max(last, sh.Known.ResetAt.Load())
	}
	return time.Duration(max(0, last-now))
}

// Spare returns how many permits the limit would have left to give, as last heard and if all who
// wait for an answer are granted one. A shard that was not heard from has its share.
func (r *Routes) Spare() (n int64) {
	for _, sh := range r.Shards {
		n += sh.Left()
	}
	return n
}

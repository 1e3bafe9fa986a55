package limit

import (
	"sync"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/membership"
	"github.com/shardlimit/shardlimit/shard"
)

// Plan is what follows from a layout whatever the process has to do with its shards. It never
// changes. Keys of a family whose shards are at the same places have one in common.
type Plan struct {
	Layout shard.Layout
	Limit  Limit
	Memory int64             // nanoseconds after which what was granted is free again
	live   []shard.Shard     // of the layout
	terms  []*dispatch.Terms // of each of these
	ways   []*dispatch.Way   // to each of these
	fence  *membership.Fence // of the layout; nil: none
	order  []int             // their places in this participant's order of preference
}

// planFor returns the plan of a layout of the limit.
func (c *Core) planFor(layout shard.Layout) (*Plan, error) {
	limit, err := LimitOf(layout)
	if err != nil {
		return nil, err
	}
	p := &Plan{Layout: layout, Limit: limit, Memory: int64(limit.Memory()), live: layout.Live()}
	if layout.Fence != nil {
		p.fence = c.Process.Records.Fence
	}
	for _, s := range p.live {
		terms, err := c.termsFor(layout, s)
		if err != nil {
			return nil, err
		}
		p.terms, p.ways = append(p.terms, terms), append(p.ways, c.wayTo(s))
	}
	p.order = shard.Rank(c.Process.Config.Participant, p.live)
	return p, nil
}

// keyPlans are the plans of keys with a single shard, by where that is and what comes with their
// calls, under the family's routes.
type keyPlans struct {
	mu   sync.Mutex
	from *Routes
	at   map[keyPlan]*Plan
}

type keyPlan struct {
	at   shard.Location
	came shard.Terms
}

// mostKeyPlans bounds how many are remembered: many more than the places of a family's keys, for
// the limits that come with calls.
const mostKeyPlans = 4096

// of returns the plan of a key with a single shard, and has it made if it is not known.
func (k *keyPlans) of(from *Routes, at keyPlan, fresh func() (*Plan, error)) (*Plan, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.from != from || len(k.at) >= mostKeyPlans {
		k.from, k.at = from, make(map[keyPlan]*Plan)
	}
	if p := k.at[at]; p != nil {
		return p, nil
	}
	p, err := fresh()
	if err == nil {
		k.at[at] = p
	}
	return p, err
}

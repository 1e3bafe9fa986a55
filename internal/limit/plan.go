package limit

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// Plan is what follows from a layout whatever the process has to do with its shards. It never
// changes. Keys of a family whose shards are at the same places have one in common.
type Plan struct {
	Layout shard.Layout
	Limit  Limit
	terms  []*dispatch.Terms // of each live shard of the layout
	homes  []*dispatch.Home  // of each of these
	order  []int             // their places in this participant's order of preference
	// Account is where keys of the place are asked for of which the process has nothing else; nil
	// unless the calls bring no terms, and an answer is all that they want.
	Account *dispatch.Account
}

// plan returns the plan of a layout of the limit.
func (of *Subject) plan(layout shard.Layout) (*Plan, error) {
	limit, err := LimitOf(layout)
	if err != nil {
		return nil, err
	}
	p := &Plan{Layout: layout, Limit: limit}
	for _, s := range layout.Live() {
		terms, err := of.terms(layout, s)
		if err != nil {
			return nil, err
		}
		p.terms, p.homes = append(p.terms, terms), append(p.homes, of.home(s.Site()))
	}
	p.order = shard.Rank(of.Process.Config.Participant, layout.Live())
	return p, nil
}

// terms returns what to propose to a shard of the layout. Only a settled layout entitles a shard
// to its share at once; else shard.Layout.Plan raises it.
func (of *Subject) terms(layout shard.Layout, s shard.Shard) (*dispatch.Terms, error) {
	var floor int64
	if layout.Settled {
		floor = s.Share
	}
	proposal, err := of.proposal(layout, s, floor)
	t := &dispatch.Terms{
		Epoch:    layout.Epoch,
		Most:     cmp.Or(s.Burst, s.Share),
		Window:   layout.Span(),
		Shards:   int64(len(layout.Live())),
		Split:    slices.ContainsFunc(layout.Live(), func(o shard.Shard) bool { return o.Node != s.Node }),
		Proposal: proposal,
	}
	if layout.Fence != nil {
		t.Fence = of.Process.Records.Fence
	}
	return t, err
}

// proposal offers a layout to one of its shards, with the share that it may put in force at once.
// While the layout is not settled, it says what the one before left to the shard: what a state of
// an old snapshot holds beyond that is in force elsewhere.
func (of *Subject) proposal(layout shard.Layout, s shard.Shard, floor int64) (*script.Proposal, error) {
	algorithm, err := AlgorithmNamed(s.Algorithm)
	if err != nil {
		return nil, err
	}
	terms := script.Terms{
		Epoch: layout.Epoch, Target: s.Share, Floor: floor, Window: layout.Span(), Keep: of.keep(s),
		Algorithm: algorithm, Burst: s.Burst, Retire: s.Algorithm != layout.Algorithm,
		Quarantine: of.Process.quarantine(layout.Window),
	}
	if !layout.Settled && s.Start != shard.Unknown {
		terms.Held, terms.HeldKnown = s.Start, true
	}
	if of.Family != nil {
		terms.Revision = layout.Revision
	}
	return terms.Proposal()
}

// headKeep is how much longer than two windows the head of a live shard is kept, so that a rest
// makes no shard absent.
const headKeep = 24 * time.Hour

// keep returns how much longer than two windows a shard's state lives after its last use. A family
// has so many keys that those of live shards do not outlive what they tell.
func (of *Subject) keep(s shard.Shard) time.Duration {
	switch {
	case s.Share == 0:
		return register.StateKeep
	case of.Family != nil:
		return register.KeyKeep
	}
	return headKeep
}

// home returns where a shard lives.
func (of *Subject) home(to shard.Site) *dispatch.Home {
	home := &dispatch.Home{Site: to, Metrics: of.Metrics, Keyed: of.Family != nil}
	if a, err := AlgorithmNamed(to.Algorithm); err == nil { // else no call gets as far as to need the keys
		home.Space = a.Space(of.Process.Config.KeyPrefix, shard.Tag(to.Slot), to.Incarnation)
		home.Bursty, home.Paced = a.Bursty(), a == LeakyBucket
	}
	return home
}

// keyPlans are the plans of keys with a single shard, by where that is and what comes with their
// calls, under the family's routes.
type keyPlans struct {
	mu   sync.RWMutex
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

// of returns a plan under the family's routes; nil: none is remembered.
func (k *keyPlans) of(from *Routes, which keyPlan) *Plan {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.from != from {
		return nil
	}
	return k.at[which]
}

// remember keeps a plan under the family's routes.
func (k *keyPlans) remember(from *Routes, which keyPlan, p *Plan) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.from != from || len(k.at) >= mostKeyPlans {
		k.from, k.at = from, make(map[keyPlan]*Plan)
	}
	k.at[which] = p
}

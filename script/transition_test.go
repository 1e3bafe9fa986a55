package script

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/internal/extent"
	"github.com/shardlimit/shardlimit/shard"
)

// fleet is one limit on several shards, each a twin, while its capacity is moved about: by drivers
// that follow [shard.Layout.Plan], for clients some of which are behind.
type fleet struct {
	t         *testing.T
	rng       *rand.Rand
	algorithm Algorithm
	permits   int64 // the greatest limit there is
	current   int64 // the limit
	ratio     int64 // burst per permit, in halves
	now       int64
	layout    shard.Layout
	before    shard.Layout // what clients that are behind believe in
	twins     map[place]*twin
	history   []act
	settled   int
	settledAt int64       // the last time
	storedAt  int64       // when the layout was stored
	stretched bool        // a test of the test: floors are proposed without a plan
	abrupt    bool        // likewise: shards are not told that another algorithm follows
	others    []Algorithm // changes go to one of these, if any
	varied    bool        // changes change the permits, too
	eager     bool        // likewise: a bucket that does not exist is created full, whatever its part was before
}

// place is where a shard has its state: every algorithm its own.
type place struct {
	slot      int
	algorithm Algorithm
}

func (f *fleet) spec() shard.Spec {
	return shard.Spec{Permits: f.current, Window: time.Second, Algorithm: f.algorithm.String(),
		Burst: f.burst(f.current)}
}

func (f *fleet) burst(share int64) int64 {
	if !f.algorithm.Bursty() {
		return 0
	}
	return share * f.ratio / 2
}

// arrangement divides the permits over one to four of five slots. Shares are even, so that bursts
// are whole.
func (f *fleet) arrangement() (shards []shard.Shard) {
	n, left := 1+f.rng.IntN(4), f.current/2
	for i, slot := range f.rng.Perm(5)[:n] {
		part := left
		if i < n-1 {
			part = 1 + f.rng.Int64N(left-int64(n-1-i))
		}
		left -= part
		shards = append(shards, shard.Shard{Slot: slot, Node: "n", Algorithm: f.algorithm.String(), Share: 2 * part})
	}
	return shards
}

func (f *fleet) propose(l shard.Layout, s shard.Shard, floor int64, groups ...Group) TakeReply {
	a := allAlgorithms[slices.IndexFunc(allAlgorithms, func(a Algorithm) bool { return a.String() == s.Algorithm })]
	offer := Terms{
		Epoch: l.Epoch, Target: s.Share, Floor: floor, Window: time.Second, Keep: time.Hour,
		Algorithm: a, Burst: s.Burst, Retire: !f.abrupt && s.Algorithm != l.Algorithm,
	}
	if !l.Settled && s.Start != shard.Unknown { // as a process does
		offer.Held, offer.HeldKnown = s.Start, true
	}
	p := terms(f.t, offer)
	at := place{s.Slot, a}
	twin := f.twins[at]
	if twin == nil {
		twin = newTwin(a)
		f.twins[at] = twin
	}
	reply := twin.Take(f.now, &TakeRequest{Proposal: p, Groups: groups})
	f.history = append(f.history, acts(a, f.now, &reply)...)
	return reply
}

// client takes what it can get from some shard.
func (f *fleet) client() {
	l := f.layout
	if f.rng.IntN(3) == 0 {
		l = f.before
	}
	s := l.Shards[f.rng.IntN(len(l.Shards))]
	floor := int64(0)
	if l.Settled && l.Epoch == f.layout.Epoch {
		floor = s.Share
	}
	f.propose(l, s, floor, Group{Size: 1 + f.rng.Int64N(3), Count: 1 + f.rng.Int64N(f.permits)})
}

// drive looks at every shard, raises what may be raised, and settles. Replies get lost, and others
// take between the two visits.
func (f *fleet) drive() {
	seen := make([]shard.Observation, len(f.layout.Shards))
	visit := func(floors []int64) {
		for i, s := range f.layout.Shards {
			floor := floors[i]
			if f.stretched {
				floor = s.Share
			}
			r := f.propose(f.layout, s, floor)
			if f.rng.IntN(8) > 0 {
				seen[i] = shard.Observation{Seen: true, Epoch: r.Epoch, Start: r.Start, Share: r.Share,
					Closed: r.Closed > 0}
			}
			if f.rng.IntN(3) == 0 {
				f.client()
			}
		}
	}
	visit(f.layout.Opening(f.algorithm == AlgorithmTokenBucket && !f.eager))
	if step := f.layout.Plan(seen); !step.Done {
		visit(step.Raise)
	}
	if f.layout.Plan(seen).Done {
		f.before, f.layout = f.layout, f.layout.Settle(f.held())
		f.settled++
		f.settledAt = f.now
	}
}

// rest lets time pass in which nobody does anything, and states of shards expire: two windows after
// all that they know of is over.
func (f *fleet) rest() {
	f.now += f.rng.Int64N(3_000_000)
	for slot := range 5 {
		for _, a := range allAlgorithms {
			if twin := f.twins[place{slot, a}]; twin != nil && twin.Peek(f.now).Reset == 0 && f.rng.IntN(2) == 0 {
				delete(f.twins, place{slot, a})
			}
		}
	}
	f.now += 2_000_000
}

// held is for how long the layout has been stored that is replaced now.
func (f *fleet) held() time.Duration {
	was := f.storedAt
	f.storedAt = f.now
	return time.Duration(f.now-was) * time.Microsecond
}

func (f *fleet) change() {
	if f.varied {
		f.current = 8 + 2*f.rng.Int64N(f.permits/2-3)
	}
	if len(f.others) > 0 && (!f.algorithm.Bursty() || f.now >= f.settledAt+1_000_000) {
		// docs/reference/families.md: sooner, more can act
		f.algorithm = f.others[f.rng.IntN(len(f.others))]
	}
	next, err := f.layout.Change(f.layout.Epoch+1, f.spec(), f.arrangement(), f.held())
	must(f.t, err)
	f.before, f.layout = f.layout, next
}

func (f *fleet) run(steps int) {
	layout, err := shard.New(nil, 1, f.spec(), f.arrangement())
	must(f.t, err)
	f.layout, f.before, f.storedAt = layout, layout, f.now
	for range steps {
		f.now += f.rng.Int64N(20_000)
		switch k := f.rng.IntN(20); {
		case k == 0 && f.layout.Settled:
			if f.rng.IntN(4) == 0 {
				f.rest()
			}
			if f.change(); f.rng.IntN(3) > 0 {
				f.drive()
			}
		case k == 1 && !f.layout.Settled && f.rng.IntN(20) == 0:
			f.rest()
		case k < 6 && !f.layout.Settled:
			f.drive()
		default:
			f.client()
		}
	}
}

func newFleet(t *testing.T, a Algorithm, seed uint64) *fleet {
	rng := rand.New(rand.NewPCG(seed, 5))
	f := &fleet{t: t, rng: rng, algorithm: a, permits: 8 + 2*rng.Int64N(40), ratio: 1 + rng.Int64N(4), now: epoch0,
		twins: map[place]*twin{}}
	f.current, f.varied = f.permits, seed%2 == 1
	return f
}

// within is what an algorithm lets act within any window's time, over so many shards.
func (f *fleet) within(a Algorithm, shards int64) int64 {
	switch a {
	case AlgorithmFixedWindow: // an edge lies in between
		return 2 * f.permits
	case AlgorithmTokenBucket:
		return f.permits + f.permits*f.ratio/2
	case AlgorithmLeakyBucket:
		return f.permits + shards
	}
	return f.permits
}

// over returns the first instant at which a window has more than the greater of the two algorithms'
// bounds; -1: none has. A fixed window that follows a token bucket can have an edge just then, so
// it is held to that in its own windows only. If the two are one, it is held to its own bound.
func (f *fleet) over(a, b Algorithm) int64 {
	if a == b {
		return bound{a, f.permits, f.burst(f.permits), 1_000_000, 5}.breach(f.history)
	}
	most := max(f.within(a, 5), f.within(b, 5))
	limit := bound{algorithm: AlgorithmSlidingLog, permits: most, width: 1_000_000}
	if max(a, b) == AlgorithmTokenBucket && min(a, b) == AlgorithmFixedWindow {
		limit.permits += f.permits
		if at := (bound{algorithm: AlgorithmFixedWindow, permits: most,
			width: 1_000_000}).breach(f.history); at >= 0 {
			return at
		}
	}
	return limit.breach(f.history)
}

// TestEveryChangeOfAlgorithmKeepsTheGreaterBound: whatever moves between the shards of a limit, all
// of them together keep its bound at every instant. Where it changes between two algorithms, to and
// fro, every window obeys the greater of the two bounds.
func TestEveryChangeOfAlgorithmKeepsTheGreaterBound(t *testing.T) {
	for _, a := range allAlgorithms {
		for _, b := range allAlgorithms {
			t.Run(a.String()+" to "+b.String(), func(t *testing.T) {
				settled := 0
				seeds := extent.Some(uint64(60))
				for seed := range seeds {
					f := newFleet(t, a, seed)
					if a != b {
						f.others = []Algorithm{b, a}
					}
					f.run(1500)
					settled += f.settled
					if at := f.over(a, b); at >= 0 {
						t.Fatalf("seed %d: over its bound after %d us", seed, at-epoch0)
					}
				}
				if settled < 3*int(seeds) {
					t.Errorf("only %d changes were completed: this proves little", settled)
				}
			})
		}
	}
}

// TestBrokenMovesAreNoticed: where a rule is broken, the same simulation fails.
func TestBrokenMovesAreNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		of     []Algorithm
		breaks func(f *fleet)
	}{
		"floors are proposed before anybody gave anything up": {allAlgorithms,
			func(f *fleet) { f.stretched = true }},
		"a raise brings permits that nobody gave up": {[]Algorithm{AlgorithmTokenBucket},
			func(f *fleet) { f.eager = true }},
		"a bucket gives its share up at once": {[]Algorithm{AlgorithmTokenBucket, AlgorithmLeakyBucket},
			func(f *fleet) { f.abrupt, f.others = true, []Algorithm{AlgorithmSlidingLog, f.algorithm} }},
	} {
		for _, a := range c.of {
			caught := false
			for seed := uint64(0); seed < 400 && !caught; seed++ {
				f := newFleet(t, a, seed)
				c.breaks(f)
				f.run(1500)
				if len(f.others) > 0 {
					caught = f.over(a, f.others[0]) >= 0
				} else {
					caught = f.over(a, a) >= 0
				}
			}
			if !caught {
				t.Errorf("%v: %s, and it goes unnoticed", a, name)
			}
		}
	}
}

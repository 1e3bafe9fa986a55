package shard

import (
	"cmp"
	"math/bits"
	"slices"
)

// Observation is what a driver last heard from a shard under the layout's
// epoch: the reply to the proposal {epoch, target, floor 0} or a later one.
type Observation struct {
	Seen   bool  // false: no reply yet; the rest is ignored
	Epoch  int64 // epoch the shard stores
	Start  int64 // share it held when it adopted that epoch; 0 if it was created under it
	Share  int64 // share it holds now
	Closed bool  // it lost its memory and is in quarantine: what it forgot may still be in the window
}

// Step says what drivers may do next.
type Step struct {
	Raise      []int64 // per shard of the layout: the floor that may be proposed now; 0: none
	Done       bool    // every shard has its share: Settle and store
	Superseded bool    // a shard knows a later epoch: read the layout again
}

// Plan decides how capacity moves in an unsettled layout, given one observation
// per shard of l.Shards (missing ones count as not seen). Any number of
// drivers may observe, plan and propose at once, from observations of any age,
// and may stop at any point: the shares in force sum at every instant to no more
// than the greater of the old limit and the new, and to no more than the new one
// once the shards that give capacity up have drained.
//
// The rule: let bound_j be what shard j can hold unless it is given what others give up: what it
// started with, or, if that is more than its target, what it is observed to
// hold now, which can only fall. Before it is seen, that is its Start. What the bounds leave of the
// limit goes to the first shard up to its target, then to the second, and so on. A bound never
// grows, not even when a shard loses its memory and comes back with nothing. And a shard is raised
// only when all before it have their targets: what a bound falls by returns to that shard, or to
// earlier ones that still lacked some. So every floor ever proposed, however stale, is at
// most the one that the newest observations allow, and those sum to at most the limit.
//
// What a shard had before and is to keep, min(Start, target), is its own, and always within its
// bound: a shard that was created under the layout may have it, whatever is left. So a limit
// that nobody used can be lowered although a node does not answer. The Starts sum to the old limit.
//
// A shard in quarantine (Closed) counts as not seen: its log is empty because it
// was forgotten, not because its permits have left the window, so they must
// not serve elsewhere before the quarantine ends. The layout settles after that too.
//
// The bound rests on these rules of whoever sends proposals and keeps shards:
//
//   - Nothing is proposed under a layout that is not stored, and a layout is
//     replaced only by compare-and-set on its epoch.
//   - A floor above what Raise and Opening give is proposed only under a settled layout.
//   - Nothing creates a shard under a layout that was last confirmed, by reading the
//     record, longer ago than some time C: a proposal carries a deadline that the shard enforces.
//     Otherwise a process that still believes in an old layout would create a shard that has
//     expired or lost its memory, and raise it to its old share after that was given to others.
//   - A shard's state outlives its last change by at least C.
//   - A shard that adopts a layout holds no more than its Start then, whatever an old snapshot
//     brought back, except what is still in use: each proposal says what the Start is.
//   - A shard that lost its memory is in quarantine for at least a window and C after that, and in
//     quarantine it ignores floors: its share stays 0. After it the shard is created once more, so
//     by whoever believes in the newest layout.
//
// If a bound is not known (Start is Unknown and the shard is not seen at this
// epoch), nothing may be raised yet. A node that is gone for good must be
// declared so by the caller, with the observation {Seen, Epoch, 0, 0} for its
// shards, once it can no longer grant and its last grants have left the window.
func (l Layout) Plan(obs []Observation) Step {
	step := Step{Raise: make([]int64, len(l.Shards)), Done: true}
	bounds, left, known := make([]int64, len(l.Shards)), l.Permits, true
	for j, s := range l.Shards {
		o := observed(obs, j)
		if o.Epoch > l.Epoch {
			return Step{Raise: step.Raise, Superseded: true}
		}
		bound, holds, ok := s.bound(o, l.Epoch)
		bounds[j], left, known = bound, left-bound, known && ok
		step.Done = step.Done && holds
	}
	if step.Done || !known {
		return step
	}
	for j, s := range l.Shards {
		floor, held := int64(0), bounds[j]
		if more := min(s.Share-held, left); more > 0 {
			floor, left = held+more, left-more
		}
		if o := observed(obs, j); o.Epoch == l.Epoch && !o.Closed {
			floor, held = max(floor, s.kept()), o.Share
		}
		if floor > held {
			step.Raise[j] = floor
		}
	}
	return step
}

// observed returns observation j, or the zero value if there is none that could be true.
func observed(obs []Observation, j int) Observation {
	if j < len(obs) && obs[j].Seen && obs[j].Start >= 0 && obs[j].Share >= 0 {
		return obs[j]
	}
	return Observation{}
}

// bound returns the most that s can hold at the epoch unless it is raised, whether it
// was seen to hold its share, and whether the bound is known at all.
func (s Shard) bound(o Observation, epoch int64) (bound int64, holds, ok bool) {
	if !o.Seen || o.Epoch != epoch || o.Closed {
		return s.Start, false, s.Start != Unknown
	}
	bound = max(o.Start, s.kept())
	if bound > s.Share {
		bound = o.Share
	}
	return bound, o.Share == s.Share, true
}

// kept returns what s had before and is to keep, as far as that is known.
func (s Shard) kept() int64 { return max(min(s.Start, s.Share), 0) }

// Opening returns the floors that may be proposed before any shard was seen, so that a raise, and
// what a shard is to keep, is in force as soon as it hears of the layout. A bucket that does not
// exist is created full with its floor: it gets none if that were more than its part of the burst
// was before.
func (l Layout) Opening(buckets bool) []int64 {
	var before, capacity int64
	for _, s := range l.Shards {
		before, capacity = before+s.Start, capacity+s.capacity()
	}
	unknown := slices.ContainsFunc(l.Shards, func(s Shard) bool { return s.Start == Unknown })
	floors := l.Plan(nil).Raise
	for j, s := range l.Shards {
		floors[j] = max(floors[j], s.kept())
		if buckets && floors[j] > 0 && (unknown ||
			Scale(s.capacity(), floors[j], s.Share) > Scale(capacity, s.Start, max(before, 1))) {
			floors[j] = 0
		}
	}
	return floors
}

func (s Shard) capacity() int64 { return cmp.Or(s.Burst, s.Share) }

// Scale returns floor(n*part/whole), exactly, for a whole above 0 and a part of it.
func Scale(n, part, whole int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}

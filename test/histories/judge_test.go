package histories

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/history"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// watched is a limit of the world, and what is known of it: what was in force when, and what was
// admitted.
type watched struct {
	world    *world
	number   int
	plan     limitPlan
	deleted  int // so often; a limit that was deleted goes on under another name
	versions []*version
	came     bool  // limits came with calls for the key of a family
	revision int64 // the highest that came
	granted  int64 // when the key was granted something last
	extra    []allowance
	events   map[string]int64 // what first happened when, after which it must hold all the same
	ops      []history.Op
	// Records were lost or are old: only processes tell what is in force.
	unrecorded bool
	stepped    bool // the clock of a node that has something of it made a step
	doubt      doubt
	regained   bool  // a shard may be as it was before a change: see world.regained
	relocated  bool  // it may be in force on other nodes, with as many shards
	fresh      bool  // whatever disturbed it has been settled
	placed     bool  // a family's keys have been, or are being, placed over other nodes
	booked     int64 // the latest instant for which something was reserved
	turns      int64 // the most turns of a leaky bucket that one call got: it acts with the last
}

// version is a limit that may be in force from called until ended.
type version struct {
	limit  shardlimit.Limit
	called int64
	ended  int64 // 0: it has not
}

// allowance is permits that windows which touch this time may hold beside the limit, by what the
// documentation says of what happened then.
type allowance struct {
	from, to int64
	permits  int64
	why      string
}

func (l *watched) name() string { return fmt.Sprintf("l%d.%d", l.number, l.deleted) }

// declared notes that somebody's code declares the limit.
func (l *watched) declared(at int64) {
	if len(l.versions) == 0 {
		l.versions = []*version{{limit: l.plan.Limit, called: at}}
	}
}

// current is what is in force as far as anybody knows.
func (l *watched) current() shardlimit.Limit {
	if len(l.versions) == 0 {
		return l.plan.Limit
	}
	return l.versions[len(l.versions)-1].limit
}

// changes notes that a change is asked for; the limit may be in force from now on.
func (l *watched) changes(limit shardlimit.Limit) *version {
	v := &version{limit: limit, called: l.world.now()}
	l.versions = append(l.versions, v)
	return v
}

// changed notes that a change was done, after which the process that asked for it knew the limit
// stored. What was in force before ends when leases have ended, and so much later if that is not
// sure yet. Code of a higher revision than the stored one goes on: its process could not reach the
// record, and replaces it once it can. A key of a family may have the old limit for as long as some
// process has not used it for 15 seconds, so that of a family does not end.
func (l *watched) changed(done *version, stored shardlimit.Limit, late time.Duration) {
	end := l.world.now() + int64(late)
	if l.world.plan.takesOver() { // a takeover that begins before the change has settled is another change
		end += int64(20 * time.Second)
	}
	l.shortens(done, 0)
	for i, v := range l.versions {
		if v == done {
			return
		}
		if lowered := l.versions[i+1]; v.ended > 0 && v.limit.Permits > lowered.limit.Permits && lowered != done &&
			done.called < v.ended+int64(v.limit.Per) { // it has not settled: what was in use may be granted again
			v.ended = max(v.ended, end+int64(v.limit.Per))
		}
		pending := v.limit.Revision > stored.Revision || v.limit.Revision > done.limit.Revision &&
			limittest.Same(v.limit, stored)
		if v.ended == 0 && !l.plan.Family && !pending {
			v.ended = max(end+int64(v.limit.Lease), l.booked)
		}
	}
}

// shortens notes that a change shortens leases, now or at most so much later.
func (l *watched) shortens(change *version, late time.Duration) {
	for _, v := range l.versions {
		if v == change {
			return
		}
		if v.ended == 0 && v.limit.Lease > change.limit.Lease {
			l.allow(late+v.limit.Lease, v.limit.Permits, "leases for longer than shards remember them now")
		}
	}
}

// newest notes that a limit of this revision has come to the key of a family, and is in force:
// those of lower revisions are not any more, as long as the key's state lives.
func (l *watched) newest(revision int64) {
	if !l.world.well() || l.unrecorded || l.placed || l.world.plan.takesOver() {
		return
	}
	for _, v := range l.versions {
		if v.limit.Revision < revision && v.ended == 0 {
			v.ended = max(l.world.now(), l.booked)
		}
	}
}

// again notes that whatever a process brings may be in force again from then on: the key's state
// may be a new one.
func (l *watched) again(from int64) {
	for _, p := range l.world.procs {
		if h := p.has[l.name()].limit; l.came && h != nil && h.Limit().Mode == shardlimit.Enforced {
			l.versions = slices.Insert(l.versions, len(l.versions)-1, &version{limit: h.Limit(), called: from})
		}
	}
}

// books notes that permits were reserved at sent for a later time. What was in force then is so for
// them.
func (l *watched) books(sent, due int64) {
	l.booked = max(l.booked, due)
	for _, v := range l.versions {
		if v.called <= due && v.ended > sent {
			v.ended = max(v.ended, due)
		}
	}
}

// anew notes that what was declared in code may be in force again.
func (l *watched) anew() {
	if len(l.versions) > 0 {
		l.versions = slices.Insert(l.versions, len(l.versions)-1, &version{limit: l.plan.Limit, called: l.world.now()})
	}
}

// allow notes what the documentation allows for what happens now.
func (l *watched) allow(d time.Duration, permits int64, why string) {
	now := l.world.now()
	l.extra = append(l.extra, allowance{now, now + int64(d), permits, why})
}

// changing reports whether a change may be under way, which a reader of the record finishes.
func (l *watched) changing() bool {
	last := len(l.versions) - 1
	return last > 0 && l.world.now()-l.versions[last].called < int64(time.Second)
}

// moves reports whether keys of a family may be on their way, because they were placed over other
// nodes, what a node had was taken over, or they are counted under another algorithm.
func (l *watched) moves() bool {
	return l.plan.Family && (l.placed || l.world.plan.takesOver() && !l.world.well() ||
		slices.ContainsFunc(l.versions,
			func(v *version) bool { return v.limit.Algorithm != l.plan.Limit.Algorithm }))
}

// doubt is the time in which several layouts may be in force, because records were lost or are old:
// until a process that knows better has used the limit long enough to read the record, and what it
// found is in force. One that rests puts nothing right, and one that came later does not know.
type doubt struct {
	from, to int64 // 0, 0: there was none
	open     bool
	known    int64                       // since when one that knows uses the limit; 0: none does
	last     int64                       // when one last did
	rested   bool                        // it rested meanwhile
	knowers  map[*shardlimit.Client]bool // those that had the limit open
}

// doubted notes that records were lost or became old.
func (l *watched) doubted() {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	now := l.world.now()
	if l.doubt.to == 0 {
		l.doubt.from = now
	}
	l.doubt.open, l.doubt.known, l.doubt.rested = true, 0, false
	l.doubt.knowers = make(map[*shardlimit.Client]bool)
	for _, p := range l.world.procs {
		if p.client != nil && p.has[l.name()].limit != nil {
			l.doubt.knowers[p.client] = true
		}
	}
	l.doubt.to = now + int64(l.longest()+75*time.Second)
}

// used notes that a process used the limit, which may end a doubt. One that rested uses it anew,
// but only once: what its first call read may not have reached the places that had lost it.
func (l *watched) used(p *process, h *shardlimit.Limiter) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if !l.doubt.open || len(l.versions) == 0 {
		return
	}
	now := l.world.now()
	l.doubt.to = now + int64(l.longest()+75*time.Second)
	switch {
	case !p.works() || !l.isCurrent(h.Limit()) || !l.knows(p):
	case l.doubt.known == 0:
		l.doubt.known, l.doubt.last = now, now
	case now-l.doubt.last > int64(20*time.Second) && !l.doubt.rested:
		l.doubt.known, l.doubt.last, l.doubt.rested = now, now, true
	case now-l.doubt.known > int64(20*time.Second):
		l.doubt.open = false
	default:
		l.doubt.last = now
	}
}

// isCurrent reports whether a process that works with this limit has heard of the last change. One
// that knows another number of shards has not: a limit that only moved is in force on other shards.
func (l *watched) isCurrent(known shardlimit.Limit) bool {
	is := l.current()
	// the shards of a family stay as many as they are, and no shard is without a permit
	moved := !l.plan.Family && is.Shards > 0 && int64(known.Shards) != min(int64(is.Shards), is.Permits)
	return limittest.Same(known, is) && !moved && !l.relocated && !l.returned()
}

// returned reports whether what is in force was so before, with something else between: then a
// process that says so may know the one or the other.
func (l *watched) returned() bool {
	same := func(v *version) bool { return limittest.Same(v.limit, l.current()) }
	first := max(slices.IndexFunc(l.versions, same), 0)
	return slices.ContainsFunc(l.versions[first:], func(v *version) bool { return !same(v) })
}

// knows reports whether a process had the limit open when records were lost, or none of those that
// had lives any more.
func (l *watched) knows(p *process) bool {
	return l.doubt.knowers[p.client] || !slices.ContainsFunc(l.world.procs,
		func(other *process) bool { return other.client != nil && l.doubt.knowers[other.client] })
}

// most is the greatest limit that could be in force.
func (l *watched) most() (permits int64) {
	for _, v := range l.versions {
		permits = max(permits, limittest.Bound(v.limit, v.limit.Per))
	}
	return permits
}

// bound is what a window may hold; ok is false if nothing is promised for one of this length.
func (l *watched) bound(from int64, width time.Duration) (permits int64, ok bool) {
	to := from + int64(width)
	least, longest, queue := time.Duration(0), time.Duration(0), int64(0)
	moved := int64(0) // by a fixed window between clocks that differ: its edges move with it
	for _, v := range l.versions {
		if v.called < to && (v.ended == 0 || v.ended > from) {
			permits = max(permits, limittest.Bound(v.limit, width))
			if v.limit.Algorithm == shardlimit.FixedWindow && len(l.world.plan.Skew)+len(l.world.stepped) > 0 &&
				(l.moves() || l.world.plan.takesOver()) {
				moved = max(moved, v.limit.Permits)
			}
			if v.limit.Algorithm == shardlimit.LeakyBucket {
				// each shard has a turn at once; a call for several acts with the last of all
				queue = max(queue, int64(max(v.limit.Shards, 1))+2*l.turns)
			}
			if least == 0 || v.limit.Per < least {
				least = v.limit.Per
			}
			longest = max(longest, v.limit.Per)
		}
	}
	for _, a := range l.extra {
		if a.from < to && a.to >= from {
			permits += a.permits
		}
	}
	if l.doubt.from < to && l.doubt.to >= from && l.doubt.to > 0 {
		permits += 10 * l.most()
	}
	return permits + queue + moved, least == width || least == longest && width > least
}

// judge looks for a window that holds more than it may, and counts after which events the limit was
// used up.
func (l *watched) judge() {
	widths := map[time.Duration]bool{}
	for _, v := range l.versions {
		for _, windows := range append(limittest.Longer(v.limit.Algorithm), 1) {
			widths[windows*v.limit.Per] = true
		}
	}
	for _, width := range slices.Sorted(maps.Keys(widths)) {
		worst, excess := history.CheckBy(width, func(from int64) int64 {
			if bound, ok := l.bound(from, width); ok {
				return bound
			}
			return math.MaxInt64
		}, l.ops)
		if excess > 0 {
			l.world.found("over", "l%d: %s, which is %d more than it may hold", l.number, worst, excess)
		}
	}
	limit := l.current()
	for do, at := range l.events {
		if history.Busiest(limit.Per, limittest.Since(at, l.ops)).Permits*10 >= limit.Permits*9 {
			l.world.did(do + ", and then used up")
		}
	}
}

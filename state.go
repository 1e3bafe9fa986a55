package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/internal/forecast"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// unanswered is what the layout says of a shard.
func unanswered(s shard.Shard) ShardState {
	algorithm, _ := algorithmNamed(s.Algorithm) // one that this version does not know prints as such
	return ShardState{Tag: shard.Tag(s.Slot), Slot: s.Slot, Node: s.Node, Algorithm: algorithm, Target: s.Share,
		Err: node.ErrAway}
}

// fill takes the numbers of a reply over. A shard without state is unused: it
// starts with its share when it is first asked, and with most permits free.
func (s *ShardState) fill(r *script.PeekReply, layout shard.Layout, most int64) {
	if r.Status == script.Absent {
		if layout.Settled {
			s.Share, s.Free = s.Target, most
		}
		return
	}
	s.Share, s.Used, s.Free, s.Quarantine = r.Share, r.Used, r.Free, r.Closed
}

// sum adds the shards up, and reports whether any answered.
func (st *State) sum(ahead [][]forecast.Release, resets []time.Duration) (answered bool) {
	var all forecast.Outlook
	for i, s := range st.Shards {
		if s.Err != nil {
			continue
		}
		answered = true
		st.Used += s.Used
		st.ResetAfter = max(st.ResetAfter, resets[i])
		all.Add(s.Free, ahead[i])
	}
	all.Sort()
	st.Remaining, st.releases = all.Free, all.Releases
	if st.Remaining == 0 && len(st.releases) > 0 {
		st.RetryAfter = time.Duration(st.releases[0].At)
	}
	return answered
}

// When is how long after the Peek n permits are free together, if nobody takes or gives back any
// meanwhile: 0 if they are free, -1 if they never can be, because the limit has less. They are free
// for a call: before what is reserved, if they fit there, and else behind it.
//
// The answer is never early. With more than about 30 grants in a shard's window it may be late by a
// thirtieth of the window, and by more behind a reservation. Permits of shards that did not answer,
// and those that still move between shards, are taken to come after a whole window.
func (st State) When(n int64) time.Duration {
	if n > st.Limit.most() {
		return -1
	}
	o := forecast.Outlook{Free: st.Remaining, Releases: st.releases}
	if at, ok := o.When(n); ok {
		return time.Duration(at)
	}
	return st.Limit.Per
}

// reopens gives a shard the share that its next call puts in force, after the quarantine if it is
// in one, if the layout entitles it to that at once. A token bucket has to fill from then on.
func reopens(ln *lane.Lane, r *script.PeekReply, layout shard.Layout) {
	if !layout.Settled || layout.Epoch != r.Epoch || r.Share >= r.Target {
		return
	}
	before := ln.Room(r)
	if r.Share = r.Target; r.Closed == 0 && (!ln.Bursty || ln.Paced) {
		r.Free += ln.Room(r) - before
	}
}

package shardlimit

import (
	"time"

	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// fill takes the numbers of a reply over. A shard without state is unused: it
// starts with its share when it is first asked.
func (s *ShardState) fill(r *script.PeekReply, layout shard.Layout) {
	if r.Status == script.Absent {
		if layout.Settled {
			s.Share, s.Free = s.Target, s.Target
		}
		return
	}
	s.Share, s.Used, s.Free, s.Quarantine = r.Share, r.Used, r.Free, r.Closed
}

// sum adds the shards up, and reports whether any answered.
func (st *State) sum(next, resets []time.Duration) (answered bool) {
	first := time.Duration(-1)
	for i, s := range st.Shards {
		if s.Err != nil {
			continue
		}
		answered = true
		st.Used += s.Used
		st.Remaining += s.Free
		st.ResetAfter = max(st.ResetAfter, resets[i])
		if s.Target > 0 && (first < 0 || next[i] < first) {
			first = next[i]
		}
	}
	if st.Remaining == 0 && first > 0 {
		st.RetryAfter = first
	}
	return answered
}

package call

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
	"github.com/shardlimit/shardlimit/shard"
)

// State is what Peek found, see shardlimit.State.
type State struct {
	Limit   limit.Limit
	Epoch   int64
	Settled bool

	Used, Remaining        int64
	RetryAfter, ResetAfter time.Duration

	Participants int64
	Shards       []ShardState
	Records      []string
	Takeover     bool
	Lost         []string
}

// ShardState is one shard of a State, see shardlimit.ShardState.
type ShardState struct {
	Tag       string
	Slot      int
	Node      string
	Algorithm limit.Algorithm

	Target, Share, Used, Free int64

	Quarantine time.Duration
	Err        error

	next, reset time.Duration // until the next permit is back, 0: none is, and until it is unused
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

// sum adds the shards up. It reports whether any answered.
func (st *State) sum() (answered bool) {
	first := time.Duration(math.MaxInt64)
	for _, s := range st.Shards {
		if s.Err != nil {
			continue
		}
		answered = true
		st.Used += s.Used
		st.Remaining += s.Free
		st.ResetAfter = max(st.ResetAfter, s.reset)
		if s.next > 0 {
			first = min(first, s.next)
		}
	}
	if st.Remaining == 0 && first < math.MaxInt64 {
		st.RetryAfter = first
	}
	return answered
}

// reopens gives a shard the share that its next call puts in force, after the quarantine if it is
// in one, if the layout entitles it to that at once. A token bucket has to fill from then on.
func reopens(sh *dispatch.Shard, r *script.PeekReply, layout shard.Layout) {
	if !layout.Settled || layout.Epoch != r.Epoch || r.Share >= r.Target {
		return
	}
	before := sh.Room(r)
	if r.Share = r.Target; r.Closed == 0 && (!sh.Bursty || sh.Paced) {
		r.Free += sh.Room(r) - before
	}
}

// Participants returns how those who contend for the limit stand, the greatest use first.
func (l *Limiter) Participants(ctx context.Context) ([]fairness.Standing, error) {
	c := l.Hold().Target
	defer c.Release()
	if c.LimitNow().Scope == limit.PerParticipant && c.Invalid == nil && !c.Process.Closed.Load() {
		return nil, nil
	}
	var mu sync.Mutex
	all := make(map[string]fairness.Standing)
	asked, answered := false, false
	err := c.EveryShard(ctx, c.Process.Config.CallTimeout, func(ctx context.Context, sh *dispatch.Shard) error {
		reply, err := sh.Participants(ctx)
		mu.Lock()
		defer mu.Unlock()
		asked, answered = true, answered || err == nil
		if err != nil {
			return err
		}
		for _, s := range reply.Standings {
			before := all[s.ID]
			s.Weight = max(s.Weight, before.Weight)
			s.Used += before.Used
			s.Demand += before.Demand
			s.Entitlement += before.Entitlement
			all[s.ID] = s
		}
		return nil
	})
	if asked && !answered {
		err = c.Process.Plainly(register.Unavailable(err))
	}
	if shared := all[""]; shared.Used == 0 && shared.Demand == 0 { // a shared account that nobody uses is no news
		delete(all, "")
	}
	return slices.SortedFunc(maps.Values(all), func(a, b fairness.Standing) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.ID, b.ID))
	}), err
}

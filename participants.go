package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/lane"
)

// ParticipantState is how a participant stands while the participants of a limit
// contend. All numbers are sums over the shards on which it has an account.
type ParticipantState struct {
	// ID is ParticipantID of its name: Redis does not know the name. It is empty
	// for the account that those share who have none of their own, because they
	// were never seen before or are too many.
	ID string
	// Weight as it last gave it, MinWeight to MaxWeight; of the shared account that of a newcomer.
	Weight float64
	// Used is about how many permits it took in the last half window.
	Used int64
	// Demand is how many permits per window it wanted lately, as far as its use bears that out.
	Demand float64
	// Entitlement is the permits per window at which it is paced, on the shards that
	// hold anybody back; 0 if none does.
	Entitlement float64
}

// Participants tells how those who contend for the limit stand, the greatest use
// first. It reads the accounts that shards keep from the first refusal until two windows
// after the last: at other times nobody contends, and the list is empty. So it always is for
// a limit of Scope PerParticipant. What was used before the first refusal is in no
// account. A shard has accounts for at most 1,024 participants, which is up to 231 KB to read;
// nothing is written or consumed.
//
// The error is a *ShardError for each shard that did not answer, and what the
// others said is returned with it. ErrUnavailable and ErrClosed are as for Peek.
func (l *Limiter) Participants(ctx context.Context) ([]ParticipantState, error) {
	c := l.hold().core
	defer c.release()
	if c.limitNow().Scope == PerParticipant && c.invalid == nil && !c.client.closed.Load() {
		return nil, nil
	}
	var mu sync.Mutex
	all := make(map[string]ParticipantState)
	answered := false
	err := c.everyShard(ctx, c.client.cfg.CallTimeout, func(ctx context.Context, ln *lane.Lane) error {
		reply, err := ln.Participants(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		answered = true
		for _, s := range reply.Standings {
			all[s.ID] = all[s.ID].plus(s)
		}
		return nil
	})
	if shard := (*ShardError)(nil); !answered && errors.As(err, &shard) {
		err = errors.Join(ErrUnavailable, err)
	}
	return byUse(all), err
}

// plus adds what one more shard says of the participant.
func (p ParticipantState) plus(s fairness.Standing) ParticipantState {
	return ParticipantState{
		ID:          s.ID,
		Weight:      max(p.Weight, float64(s.Weight)/1000),
		Used:        p.Used + s.Used,
		Demand:      p.Demand + float64(s.Demand)/1000,
		Entitlement: p.Entitlement + s.Entitlement,
	}
}

// byUse lists participants, the greatest use first. A shared account that nobody uses is no news.
func byUse(all map[string]ParticipantState) []ParticipantState {
	if shared := all[""]; shared.Used == 0 && shared.Demand == 0 {
		delete(all, "")
	}
	return slices.SortedFunc(maps.Values(all), func(a, b ParticipantState) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.ID, b.ID))
	})
}

package call

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// ParticipantState is how a participant stands, see shardlimit.ParticipantState.
type ParticipantState struct {
	ID                  string
	Weight              float64
	Used                int64
	Demand, Entitlement float64
}

// Participants returns how those who contend for the limit stand.
func (l *Limiter) Participants(ctx context.Context) ([]ParticipantState, error) {
	c := l.Hold().Target
	defer c.Release()
	if c.LimitNow().Scope == limit.PerParticipant && c.Invalid == nil && !c.Process.Closed.Load() {
		return nil, nil
	}
	var mu sync.Mutex
	all := make(map[string]ParticipantState)
	asked, answered := false, false
	err := c.EveryShard(ctx, c.Process.Config.CallTimeout, func(ctx context.Context, ln *lane.Lane) error {
		reply, err := ln.Participants(ctx)
		mu.Lock()
		defer mu.Unlock()
		asked, answered = true, answered || err == nil
		if err != nil {
			return err
		}
		for _, s := range reply.Standings {
			all[s.ID] = all[s.ID].plus(s)
		}
		return nil
	})
	if asked && !answered {
		err = c.Process.Plainly(errors.Join(limit.ErrUnavailable, err))
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

package call

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/shardlimit/shardlimit/fairness"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
)

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
	err := c.EveryShard(ctx, c.Process.Config.CallTimeout, func(ctx context.Context, ln *dispatch.Lane) error {
		reply, err := ln.Participants(ctx)
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

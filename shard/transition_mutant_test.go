package shard_test

import (
	"math/big"
	"testing"

	"github.com/shardlimit/shardlimit/shard"
)

// TestTransitionBites breaks one rule at a time and wants the simulation to notice.
func TestTransitionBites(t *testing.T) {
	planned := func(plan func(shard.Layout, []shard.Observation) shard.Step) rules {
		r := safe()
		r.plan = plan
		return r
	}
	broken := func(change func(*rules)) rules {
		r := safe()
		change(&r)
		return r
	}
	mutants := map[string]rules{
		"raise before anything is lowered":  planned(planAtOnce),
		"ignore what is held":               planned(planIgnoringHeld),
		"ignore quarantine":                 planned(planIgnoringClosed),
		"do not wait to see every shard":    planned(planUnseen),
		"settle when most are seen":         planned(planEarly),
		"proportional rule":                 planned(planProportional),
		"proportional, and nothing is lost": broken(func(r *rules) { r.plan, r.noLoss = planProportional, true }),
		"layouts are never confirmed":       broken(func(r *rules) { r.neverConfirm = true }),
		"never confirmed, nothing is lost":  broken(func(r *rules) { r.neverConfirm, r.noLoss = true, true }),
		"quarantined shards take floors":    broken(func(r *rules) { r.looseQuarantine = true }),
		"a quarantine of a window":          broken(func(r *rules) { r.losses, r.shortQuarantine = true, true }),
		"nothing is confirmed after it":     broken(func(r *rules) { r.losses, r.keptQuarantine = true, true }),
		"unsettled layouts create targets":  broken(func(r *rules) { r.eagerCreate = true }),
		"starts of an unsettled layout":     broken(func(r *rules) { r.boldChange = true }),
		"a new algorithm starts afresh":     broken(func(r *rules) { r.newAlgorithm, r.noLoss = true, true }),
		"what was forgotten moved nothing":  broken(func(r *rules) { r.anew, r.boldAnew, r.noLoss = true, true, true }),
	}
	// Where to begin: the first seed that finds a mutant which few find.
	rare := map[string]uint64{
		"proportional, and nothing is lost": 44_260,
		"quarantined shards take floors":    23_403,
		"nothing is confirmed after it":     57_061,
		"a quarantine of a window":          2_584,
		"layouts are never confirmed":       2_444,
		"proportional rule":                 9_717,
		"settle when most are seen":         739,
		"never confirmed, nothing is lost":  380,
	}
	for name, r := range mutants {
		t.Run(name, func(t *testing.T) {
			for seed := rare[name]; seed < rare[name]+60000; seed++ {
				if _, err := simulate(seed, r); err != nil {
					t.Logf("found by seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not noticed")
		})
	}
}

// planAtOnce raises every shard to its target whatever the others hold.
func planAtOnce(l shard.Layout, obs []shard.Observation) shard.Step {
	step := l.Plan(obs)
	for j, s := range l.Shards {
		step.Raise[j] = s.Share
	}
	return step
}

// planIgnoringHeld believes that a shard which adopted a lower target has reached it.
func planIgnoringHeld(l shard.Layout, obs []shard.Observation) shard.Step {
	seen := append([]shard.Observation(nil), obs...)
	for j, s := range l.Shards {
		seen[j].Share = min(seen[j].Share, s.Share)
	}
	step := l.Plan(seen)
	step.Done = l.Plan(obs).Done
	return step
}

func planIgnoringClosed(l shard.Layout, obs []shard.Observation) shard.Step {
	seen := append([]shard.Observation(nil), obs...)
	for j := range seen {
		seen[j].Closed = false
	}
	return l.Plan(seen)
}

// planUnseen takes a shard of unknown start that was not seen for an empty one.
func planUnseen(l shard.Layout, obs []shard.Observation) shard.Step {
	seen := append([]shard.Observation(nil), obs...)
	for j, s := range l.Shards {
		if s.Start == shard.Unknown && !seen[j].Seen {
			seen[j] = shard.Observation{Seen: true, Epoch: l.Epoch, Share: 0}
		}
	}
	step := l.Plan(seen)
	step.Done = l.Plan(obs).Done
	return step
}

// planEarly is done when the live shards have their shares, whether the leaving ones are empty or
// not.
func planEarly(l shard.Layout, obs []shard.Observation) shard.Step {
	step := l.Plan(obs)
	done := !step.Superseded
	for j := range l.Live() {
		done = done && obs[j].Seen && obs[j].Share == l.Shards[j].Share
	}
	step.Done = done
	return step
}

// planProportional divides what is free in proportion to what each shard lacks
// of its target: v = start + floor((target-start)*free/need). It depends on the
// starts, so a shard that loses its memory changes everybody's part.
func planProportional(l shard.Layout, obs []shard.Observation) shard.Step {
	step := l.Plan(obs)
	if step.Superseded || step.Done {
		return step
	}
	clear(step.Raise)
	free, need := l.Permits, int64(0)
	starts := make([]int64, len(l.Shards))
	for j, s := range l.Shards {
		start, held := s.Start, s.Start
		if o := obs[j]; o.Seen && o.Epoch == l.Epoch && !o.Closed {
			start, held = o.Start, o.Share
		}
		if start == shard.Unknown {
			return step
		}
		if starts[j] = start; s.Share < start {
			free -= held
		} else {
			free -= start
			need += s.Share - start
		}
	}
	free = min(max(free, 0), need)
	for j, s := range l.Shards {
		if lack := s.Share - starts[j]; lack > 0 && free > 0 {
			part := new(big.Int).Mul(big.NewInt(lack), big.NewInt(free))
			step.Raise[j] = starts[j] + part.Div(part, big.NewInt(need)).Int64()
		}
	}
	return step
}

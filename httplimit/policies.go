package httplimit

import (
	"cmp"
	"context"
	"slices"

	"github.com/shardlimit/shardlimit"
)

// Policy is a limit with the name under which answers tell of it, as Options.Policy says.
type Policy struct {
	Name    string
	Limiter *shardlimit.Limiter
	// Permits is how many a request takes of this limit, whatever it costs; 0 means what it costs.
	Permits int64
}

// Policies is a Limiter and a Waiter: several limits that a request must pass together, as
// shardlimit.All has them, each with its name. It is safe for concurrent use.
type Policies struct{ all []Policy }

// All returns limits that a request must pass together. Answers tell q, w, r and t of each that
// decided: what it has left, and until when. OpenAI tells of each, too. Triple and XTriple tell of
// the one that has least left.
//
// A Chooser may make it for each request, such as one limit for all and one for the user, or so
// many requests and so many tokens. It panics if a Limiter is nil, or a name is empty or has been
// there.
func All(policies ...Policy) *Policies {
	for i, policy := range policies {
		if policy.Limiter == nil {
			panic("httplimit: the policy " + policy.Name + " has no Limiter")
		}
		if policy.Name == "" {
			panic("httplimit: a policy has no name")
		}
		if slices.ContainsFunc(policies[:i], func(p Policy) bool { return p.Name == policy.Name }) {
			panic("httplimit: two policies have the name " + policy.Name)
		}
	}
	return &Policies{policies}
}

// set returns the Set for a request that costs n.
func (p *Policies) set(n int64) *shardlimit.Set {
	parts := make([]shardlimit.Part, len(p.all))
	for i, policy := range p.all {
		parts[i] = policy.Limiter.N(cmp.Or(policy.Permits, n))
	}
	return shardlimit.All(parts...)
}

// AllowN asks every limit for the permits of a request that costs n, all or nothing, as
// shardlimit.Set does.
func (p *Policies) AllowN(ctx context.Context, n int64) (shardlimit.Decision, error) {
	return p.set(n).Allow(ctx)
}

// Acquire waits for the permits of a request that costs n, as shardlimit.Set does.
func (p *Policies) Acquire(ctx context.Context, n int64) (shardlimit.Decision, error) {
	return p.set(n).Acquire(ctx)
}

// Settle makes what a decision was granted what was used, at every limit, as shardlimit.Set does.
// Limits with Permits of their own keep those, unless nothing was used: then all comes back.
func (p *Policies) Settle(ctx context.Context, d shardlimit.Decision, used int64) error {
	all := make([]int64, len(p.all))
	for i, policy := range p.all {
		if all[i] = used; used > 0 {
			all[i] = cmp.Or(policy.Permits, used)
		}
	}
	return p.set(1).Settle(ctx, d, all...)
}

// Each returns what each limit said of a decision, in the order of All, as shardlimit.Set does.
func (p *Policies) Each(d shardlimit.Decision) []shardlimit.Decision { return p.set(1).Each(d) }

// Refused returns the policies that refused a decision, and what each said. The one that does so
// for longest comes first.
func (p *Policies) Refused(d shardlimit.Decision) (refused []Policy, said []shardlimit.Decision) {
	for i, one := range p.Each(d) {
		if one.Allowed || undecided(&one) {
			continue
		}
		at := len(said)
		if at > 0 && one.RetryAfter > said[0].RetryAfter {
			at = 0
		}
		refused, said = slices.Insert(refused, at, p.all[i]), slices.Insert(said, at, one)
	}
	return refused, said
}

// undecided reports whether nothing could be decided about a limit beside others.
func undecided(d *shardlimit.Decision) bool { return !d.Allowed && d.RetryAfter == 0 }

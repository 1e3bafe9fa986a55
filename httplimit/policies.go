package httplimit

import (
	"context"

	"github.com/shardlimit/shardlimit"
)

// Policy is a limit with the name under which answers tell of it, printable ASCII.
type Policy struct {
	Name    string
	Limiter *shardlimit.Limiter
}

// Policies is a Limiter: several limits that a request must pass together, as shardlimit.All has
// them, each with its name. It is safe for concurrent use.
type Policies struct {
	set   *shardlimit.Set
	all   []Policy
	names []string // as they stand in headers
}

// All returns limits that a request must pass together. Answers tell q and w of each, and what
// remains of the one that has least left. t is there only when a request was refused, because
// limits that are asked together do not tell when each is whole again; and if two limits have the
// same number of permits, RateLimit names the first of them.
//
// A Chooser may make it for each request, such as one limit for all and one for the user. It
// panics if a Limiter is nil, or a name is empty, has been there, or cannot stand in a header.
func All(policies ...Policy) *Policies {
	p := &Policies{all: policies, names: make([]string, len(policies))}
	limiters := make([]*shardlimit.Limiter, len(policies))
	for i, policy := range policies {
		if policy.Limiter == nil {
			panic("httplimit: the policy " + policy.Name + " has no Limiter")
		}
		if policy.Name == "" {
			panic("httplimit: a policy has no name")
		}
		for _, other := range policies[:i] {
			if other.Name == policy.Name {
				panic("httplimit: two policies have the name " + policy.Name)
			}
		}
		limiters[i], p.names[i] = policy.Limiter, quoted(policy.Name)
	}
	p.set = shardlimit.All(limiters...)
	return p
}

// AllowN asks for n permits of every limit, all or nothing, as shardlimit.Set does.
func (p *Policies) AllowN(ctx context.Context, n int64) (shardlimit.Decision, error) {
	return p.set.AllowN(ctx, n)
}

// Refund gives back what a decision was granted, to every limit, as shardlimit.Set does.
func (p *Policies) Refund(ctx context.Context, d shardlimit.Decision) error {
	return p.set.Refund(ctx, d)
}

// decisive is the place of the limit that a decision tells of, -1 if none has so many permits.
func (p *Policies) decisive(d *shardlimit.Decision) int {
	for i, policy := range p.all {
		if policy.Limiter.Limit().Permits == d.Limit {
			return i
		}
	}
	return -1
}

package httplimit

import (
	"context"
	"slices"
	"time"

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

// All returns limits that a request must pass together. Answers tell q and w of each, and r and t:
// what it has left, and until when. Triple and XTriple tell of the one that has least left.
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

// Settle makes what a decision was granted what was used, at every limit, as shardlimit.Set does.
func (p *Policies) Settle(ctx context.Context, d shardlimit.Decision, used int64) error {
	return p.set.Settle(ctx, d, used)
}

// Each returns what each limit said of a decision, in the order of All, as shardlimit.Set does.
func (p *Policies) Each(d shardlimit.Decision) []shardlimit.Decision { return p.set.Each(d) }

// refused is the names of the policies that refused, the one that does so for longest first.
func (p *Policies) refused(d shardlimit.Decision) (names []string) {
	longest := time.Duration(0)
	for i, said := range p.Each(d) {
		switch {
		case said.Allowed:
		case said.RetryAfter > longest:
			longest = said.RetryAfter
			names = slices.Insert(names, 0, p.all[i].Name)
		default:
			names = append(names, p.all[i].Name)
		}
	}
	return names
}

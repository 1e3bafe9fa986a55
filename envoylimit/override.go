package envoylimit

import (
	"fmt"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// override is the limit that a descriptor brings along, which goes before all rules of its domain.
// It holds for the domain, keys and values of the descriptor together. Usage stays counted
// if a later request brings another number for these. Each unit counts by itself.
func (s *Service) override(domain string, entries []rules.Entry,
	o *ratelimit.RateLimitDescriptor_RateLimitOverride) (*limit, rules.Match, error) {
	unit, ok := rules.UnitNamed(o.GetUnit().String())
	if !ok {
		return nil, rules.Match{}, fmt.Errorf("%w: its unit is %s; use second, minute, hour, day, week or month",
			ErrOverride, o.GetUnit())
	}
	l := newLimit(s, &rules.Rule{ID: "override/" + unit.String(), Domain: domain, Open: true,
		Requests: o.GetRequestsPerUnit(), Unit: unit, Window: unit.Duration()})
	l.brought, l.handle = true, &s.overrides[unit]
	keys := make([]string, len(entries))
	for i, e := range entries {
		keys[i] = e.Key
	}
	return l, rules.Match{Rule: l.rule, Key: rules.Path(domain, entries), Metric: strings.Join(keys, ".")}, nil
}

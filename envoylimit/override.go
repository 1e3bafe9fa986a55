package envoylimit

import (
	"fmt"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// keptOverrides is how many limits that requests brought along are remembered: those used
// last. One that comes again counts on, as what was used is on Redis.
const keptOverrides = 1024

// override is the limit that a descriptor brings along, which goes before all rules of its domain.
// It holds for the keys and values of the descriptor together.
func (s *Service) override(domain string, entries []rules.Entry,
	o *ratelimit.RateLimitDescriptor_RateLimitOverride) (*limit, rules.Match, error) {
	unit, ok := rules.UnitNamed(o.GetUnit().String())
	if !ok || unit == rules.Year {
		return nil, rules.Match{}, fmt.Errorf("%w: its unit is %s; use second, minute, hour, day, week or month",
			ErrOverride, o.GetUnit())
	}
	id := "override/" + strconv.Itoa(int(o.GetRequestsPerUnit())) + "/" + unit.String() + "/" + domain
	l := s.overrides.get(id, keptOverrides, func() *limit {
		rule := &rules.Rule{ID: id, Domain: domain, Open: true, Requests: o.GetRequestsPerUnit(), Unit: unit}
		l := newLimit(s, rule)
		l.brought = true
		return l
	})
	var key []byte
	keys := make([]string, len(entries))
	for i, e := range entries {
		for _, part := range []string{e.Key, e.Value} {
			key = strconv.AppendInt(key, int64(len(part)), 10)
			key = append(append(key, ':'), part...)
		}
		keys[i] = e.Key
	}
	return l, rules.Match{Rule: l.rule, Key: string(key), Metric: strings.Join(keys, ".")}, nil
}

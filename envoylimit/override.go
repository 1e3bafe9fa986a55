package envoylimit

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// maxOverrides bounds how many limits requests can bring along, because each is remembered.
const maxOverrides = 1024

// overrides are the limits that requests brought along. The zero value has none.
type overrides struct {
	mu  sync.Mutex
	all map[string]*limit
}

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
	s.overrides.mu.Lock()
	defer s.overrides.mu.Unlock()
	l := s.overrides.all[id]
	if l == nil {
		if len(s.overrides.all) == maxOverrides {
			return nil, rules.Match{}, fmt.Errorf("%w: requests brought more than %d different ones", ErrOverride,
				maxOverrides)
		}
		if s.overrides.all == nil {
			s.overrides.all = make(map[string]*limit)
		}
		l = newLimit(s, &rules.Rule{ID: id, Domain: domain, Open: true, Requests: o.GetRequestsPerUnit(), Unit: unit})
		l.brought = true
		s.overrides.all[id] = l
	}
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

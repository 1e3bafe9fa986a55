package envoylimit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
)

// ask is one descriptor of a request, and what becomes of it.
type ask struct {
	rules.Match        // without a Rule: no limit
	limit       *limit // of the rule
	hits        uint64

	limiter   *shardlimit.Limiter // that was asked
	decision  shardlimit.Decision
	over      bool
	remaining int64
	reset     time.Duration
	err       error
}

// asksOf finds the limits of a request.
func (s *Service) asksOf(request *rls.RateLimitRequest) ([]ask, error) {
	g := s.live.Load()
	switch {
	case g == nil:
		return nil, ErrNoConfig
	case request.GetDomain() == "":
		return nil, ErrNoDomain
	case len(request.GetDescriptors()) == 0:
		return nil, ErrNoDescriptors
	case len(request.GetDescriptors()) > MaxDescriptors:
		return nil, fmt.Errorf("%w: %d descriptors, and at most %d are possible", ErrTooManyDescriptors,
			len(request.GetDescriptors()), MaxDescriptors)
	}
	asks := make([]ask, len(request.GetDescriptors()))
	replaced := make(map[string]bool)
	for i, d := range request.GetDescriptors() {
		a := &asks[i]
		a.hits = hitsOf(request, d)
		if err := s.find(a, g, request.GetDomain(), d); err != nil {
			return nil, err
		}
		if a.Rule != nil {
			for _, name := range a.Replaces {
				replaced[name] = true
			}
		}
	}
	for i := range asks {
		if r := asks[i].Rule; r != nil && !r.Unlimited && r.Name != "" && replaced[r.Name] {
			asks[i].Match, asks[i].limit = rules.Match{}, nil
		}
	}
	return asks, nil
}

// find has an ask know its rule and limit.
func (s *Service) find(a *ask, g *generation, domain string, d *ratelimit.RateLimitDescriptor) error {
	var few [8]rules.Entry
	entries := few[:0]
	for _, e := range d.GetEntries() {
		entries = append(entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	if d.GetLimit() != nil && g.config.Known(domain) {
		var err error
		a.limit, a.Match, err = s.override(domain, entries, d.GetLimit())
		return err
	}
	m, ok := g.config.Match(domain, entries)
	if ok {
		a.Match, a.limit = m, g.limits[m.Rule]
	}
	return nil
}

// hitsOf is what a descriptor costs: its own number, which may be 0, or that of the request, which
// is at least 1.
func hitsOf(request *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) uint64 {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue()
	}
	return max(1, uint64(request.GetHitsAddend()))
}

// decideAll asks all limits of a request at once. What could not be decided in shadow is no error.
func (s *Service) decideAll(ctx context.Context, asks []ask) error {
	var wg sync.WaitGroup
	for i := range asks {
		if a := &asks[i]; a.remote() && len(asks) > 1 {
			wg.Go(func() { s.decide(ctx, a) })
		} else {
			s.decide(ctx, a)
		}
	}
	wg.Wait()
	errs := make([]error, len(asks))
	for i := range asks {
		if a := &asks[i]; a.err != nil && !s.o.Shadow && !a.Shadow {
			errs[i] = a.err
		}
	}
	return errors.Join(errs...)
}

// remote reports whether Redis decides.
func (a *ask) remote() bool { return a.limit != nil && a.limit.asked() }

// decide asks the limit of one descriptor.
func (s *Service) decide(ctx context.Context, a *ask) {
	switch {
	case a.Rule == nil:
	case a.Unlimited:
		a.remaining = math.MaxUint32
	case !a.remote(): // nothing may pass; to ask without a hit is no hit
		a.over, a.reset = a.hits > 0, a.Window
	default:
		if a.limiter, a.err = a.limit.limiter(ctx, a.Key); a.err != nil {
			return
		}
		switch {
		case a.hits == 0:
			a.look(ctx)
		case a.hits > uint64(a.Requests) && s.o.Charge == Together: // it never can be granted
			a.look(ctx)
			a.over, a.reset, a.err = true, a.Window, nil
		default:
			a.take(ctx, s.o.Charge)
		}
		if a.err == nil && !a.decision.Degraded {
			a.limit.heard(ctx)
		}
	}
}

// take asks for the hits of a descriptor.
func (a *ask) take(ctx context.Context, charge Charge) {
	n := int64(min(a.hits, shardlimit.MaxPermits))
	if charge == Each {
		n = min(n, a.limiter.Limit().Permits)
		a.decision, a.err = a.limiter.AllowUpTo(ctx, n)
	} else {
		a.decision, a.err = a.limiter.AllowN(ctx, n)
	}
	if errors.Is(a.err, shardlimit.ErrExceedsLimit) { // of the limit in force before a change
		a.err, a.over, a.reset = nil, true, a.Window
		return
	}
	if a.err != nil {
		return
	}
	d := &a.decision
	a.over = d.Granted < int64(min(a.hits, math.MaxInt64))
	a.remaining, a.reset = d.Remaining, d.ResetAfter
	if a.over && d.RetryAfter > 0 {
		a.reset = d.RetryAfter
	}
}

// look asks for no hit: whether one would be refused.
func (a *ask) look(ctx context.Context) {
	var state shardlimit.State
	if state, a.err = a.limiter.Peek(ctx); a.err != nil {
		return
	}
	a.remaining, a.reset = state.Remaining, state.ResetAfter
	if len(state.Shards) == 1 && state.Shards[0].Err == nil && state.Limit.Algorithm != shardlimit.TokenBucket {
		// the shard of a key hears of a changed limit when it is next asked for a permit
		a.remaining = max(0, int64(a.Requests)-state.Used)
	}
	if a.over = a.remaining == 0; a.over {
		a.reset = state.RetryAfter
	}
}

// giveBack returns what the limits granted to a request that others refused.
func giveBack(ctx context.Context, asks []ask) {
	var wg sync.WaitGroup
	for i := range asks {
		a := &asks[i]
		if a.decision.Granted == 0 {
			continue
		}
		wg.Go(func() {
			// if Redis is away now, it leaves the window by itself
			if a.limiter.Settle(ctx, a.decision, 0) == nil {
				a.remaining += a.decision.Granted
			}
		})
	}
	wg.Wait()
}

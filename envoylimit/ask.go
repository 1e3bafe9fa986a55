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
	hits        int64

	limiter   *shardlimit.Limiter // that was asked
	decision  shardlimit.Decision // of one that was asked alone
	degraded  bool                // the outage policy answered
	over      bool
	never     bool // it is over whatever is free
	remaining int64
	reset     time.Duration
	err       error
}

// asksOf finds the limits of a request.
func (s *Service) asksOf(request *rls.RateLimitRequest) ([]*ask, error) {
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
	asks := make([]*ask, len(request.GetDescriptors()))
	replaced := make(map[string]bool)
	for i, d := range request.GetDescriptors() {
		if !known(d) {
			return nil, ErrUnknownField
		}
		a := &ask{hits: hitsOf(request, d)}
		asks[i] = a
		if err := s.find(a, g, request.GetDomain(), d); err != nil {
			return nil, err
		}
		if a.Rule != nil {
			for _, name := range a.Replaces {
				replaced[name] = true
			}
		}
	}
	for _, a := range asks {
		if r := a.Rule; r != nil && !r.Unlimited && r.Name != "" && replaced[r.Name] {
			a.Match, a.limit = rules.Match{}, nil
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

// known reports whether a descriptor says nothing that this version would leave out.
func known(d *ratelimit.RateLimitDescriptor) bool {
	unknown := len(d.ProtoReflect().GetUnknown()) + len(d.GetLimit().ProtoReflect().GetUnknown())
	for _, e := range d.GetEntries() {
		unknown += len(e.ProtoReflect().GetUnknown())
	}
	return unknown == 0
}

// hitsOf is what a descriptor costs: its own number, which may be 0, or that of the request, which
// is at least 1. No limit has as many as MaxPermits, so it is no more than that.
func hitsOf(request *rls.RateLimitRequest, d *ratelimit.RateLimitDescriptor) int64 {
	if own := d.GetHitsAddend(); own != nil {
		return int64(min(own.GetValue(), shardlimit.MaxPermits))
	}
	return max(1, int64(request.GetHitsAddend()))
}

// decideAll asks all limits of a request. Those that are charged by themselves, or only looked at,
// come first. If these neither refuse the request nor fail, the others are asked as a Set, and at
// the same time those in shadow: what could not be decided there is no error.
func (s *Service) decideAll(ctx context.Context, asks []*ask) error {
	var first, beside, together []*ask
	for _, a := range asks {
		switch {
		case s.begin(ctx, a):
		case s.o.Shadow || a.Shadow:
			beside = append(beside, a)
		case s.o.Charge == Each || a.Quota || a.hits == 0:
			first = append(first, a)
		default:
			together = append(together, a)
		}
	}
	neverGranted(together)
	alone := func(a *ask) { a.alone(ctx, s.o.Charge) }
	each(first, alone)
	refused := s.refused(asks)
	if err := s.failed(asks); err != nil && !refused {
		return err
	}
	var rest sync.WaitGroup
	rest.Go(func() { each(beside, alone) })
	switch {
	case refused:
		each(together, func(a *ask) { a.unasked(ctx) })
	case len(together) == 1:
		together[0].take(ctx, Together)
	default:
		allow(ctx, together)
	}
	rest.Wait()
	for _, a := range asks {
		if a.limiter != nil && a.err == nil && !a.degraded {
			a.limit.heard(ctx)
		}
	}
	return s.failed(asks)
}

// failed returns why limits could not be asked that are not in shadow.
func (s *Service) failed(asks []*ask) error {
	var errs []error
	for _, a := range asks {
		if a.err != nil && !s.o.Shadow && !a.Shadow {
			errs = append(errs, a.err)
		}
	}
	return errors.Join(errs...)
}

// each does something with all, at the same time.
func each(all []*ask, do func(*ask)) {
	if len(all) == 1 {
		do(all[0])
		return
	}
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() { do(a) })
	}
	wg.Wait()
}

// begin finds what decides about a descriptor. It reports whether that needs no Redis, or failed.
func (s *Service) begin(ctx context.Context, a *ask) (done bool) {
	switch {
	case a.Rule == nil:
		return true
	case a.Unlimited:
		a.remaining = math.MaxUint32
		return true
	case !a.limit.asked(): // nothing may pass; to ask without a hit is no hit
		a.over, a.reset = a.hits > 0, a.Window
		return true
	}
	a.limiter, a.err = a.limit.limiter(ctx, a.Key)
	return a.err != nil
}

// neverGranted marks the descriptors whose hits, with those of others of the same limit, are more
// than it ever grants.
func neverGranted(asks []*ask) {
	type one struct {
		handle *handle
		key    string
	}
	sums := make(map[one]int64, len(asks))
	for _, a := range asks {
		sums[one{a.limit.handle, a.Key}] += a.hits
	}
	for _, a := range asks {
		if a.exceeds(sums[one{a.limit.handle, a.Key}]) {
			a.never, a.over = true, true
		}
	}
}

// exceeds reports whether the limit never grants so many hits at once.
func (a *ask) exceeds(hits int64) bool {
	l := a.limiter.Limit()
	return hits > min(int64(a.Requests), l.Permits) && l.Mode != shardlimit.Off && l.Mode != shardlimit.Shadow
}

// allow asks limits that can refuse the request for its hits: all or nothing.
func allow(ctx context.Context, asks []*ask) {
	parts := make([]shardlimit.Part, len(asks))
	for i, a := range asks {
		parts[i] = a.limiter.N(a.hits)
	}
	set := shardlimit.All(parts...)
	d, err := set.Allow(ctx)
	said := set.Each(d)
	for i, a := range asks {
		switch {
		case err != nil:
			a.err = err
		case !said[i].Allowed && said[i].RetryAfter == 0: // it failed, and another one refuses
			a.err = shardlimit.ErrUnavailable
		default:
			a.degraded = said[i].Degraded
			a.heard(&said[i], said[i].Allowed)
			a.remaining = min(a.remaining, int64(a.Requests)) // it may have been heard before a change
		}
	}
}

// heard takes in what a limit said of a descriptor's hits.
func (a *ask) heard(d *shardlimit.Decision, granted bool) {
	a.over, a.remaining, a.reset = !granted, d.Remaining, d.ResetAfter
	if a.over && d.RetryAfter > 0 {
		a.reset = d.RetryAfter
	}
}

// alone asks one limit, whatever becomes of the request.
func (a *ask) alone(ctx context.Context, charge Charge) {
	switch {
	case a.hits == 0:
		a.look(ctx)
	case charge == Together && a.exceeds(a.hits):
		a.never = true
		a.unasked(ctx)
	default:
		a.take(ctx, charge)
	}
}

// unasked finds what is left of a limit that is not charged: another one refuses the request, or
// this one, for ever.
func (a *ask) unasked(ctx context.Context) {
	if a.look(ctx); a.never {
		a.over, a.reset, a.err = true, a.Window, nil
	}
}

// take asks for the hits of a descriptor.
func (a *ask) take(ctx context.Context, charge Charge) {
	if charge == Each {
		a.decision, a.err = a.limiter.AllowUpTo(ctx, a.hits)
	} else {
		a.decision, a.err = a.limiter.AllowN(ctx, a.hits)
	}
	if errors.Is(a.err, shardlimit.ErrExceedsLimit) { // of the limit in force before a change
		a.err, a.over, a.reset = nil, true, a.Window
		return
	}
	if a.err != nil {
		return
	}
	a.degraded = a.decision.Degraded
	a.heard(&a.decision, a.decision.Granted >= a.hits)
}

// look finds whether the hits of a descriptor would be refused, or one hit of one that has none.
// Where no shard answers, because of the limit's mode or an outage, they are asked for and given
// back.
func (a *ask) look(ctx context.Context) {
	n, mode := max(a.hits, 1), a.limiter.Limit().Mode
	state, err := shardlimit.State{}, shardlimit.ErrUnavailable
	if mode == shardlimit.Enforced || mode == shardlimit.Shadow {
		state, err = a.limiter.Peek(ctx)
	}
	if errors.Is(err, shardlimit.ErrUnavailable) {
		var d shardlimit.Decision
		if d, a.err = a.limiter.AllowN(ctx, n); a.err == nil {
			_ = a.limiter.Settle(ctx, d, 0)
			a.degraded = d.Degraded
			a.heard(&d, d.Allowed)
		}
		return
	}
	if a.err = err; err != nil {
		return
	}
	a.remaining, a.reset = state.Remaining, state.ResetAfter
	if len(state.Shards) == 1 && state.Shards[0].Err == nil && state.Limit.Algorithm != shardlimit.TokenBucket {
		// the shard of a key hears of a changed limit when it is next asked for a permit
		a.remaining = max(0, int64(a.Requests)-state.Used)
	}
	if a.over = n > a.remaining && mode != shardlimit.Shadow; a.over && a.remaining == 0 {
		a.reset = state.RetryAfter
	}
}

// giveBack returns what limits granted that were asked alone, to a request that others refused.
func giveBack(ctx context.Context, asks []*ask) {
	each(asks, func(a *ask) {
		// if Redis is away now, it leaves the window by itself
		if a.decision.Granted > 0 && a.limiter.Settle(ctx, a.decision, 0) == nil {
			a.remaining += a.decision.Granted
		}
	})
}

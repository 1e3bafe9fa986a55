package envoylimit

import (
	"context"
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Names of the headers that Options.Headers adds.
const (
	HeaderLimit     = "RateLimit-Limit"
	HeaderRemaining = "RateLimit-Remaining"
	HeaderReset     = "RateLimit-Reset"
)

// ShouldRateLimit answers a request of Envoy. It is OVER_LIMIT if a descriptor is over its limit,
// apart from rules in shadow_mode; those in quota_mode count only if all of them are. Descriptors
// without a rule are OK and have no current_limit.
//
// Of each status, limit_remaining is what is left, and duration_until_reset the time until the
// whole limit is free, or if it is OVER_LIMIT until another try can succeed. A limit that is not
// asked, because it is known that another one refuses, says what this process last heard.
//
// A limit about which nothing could be decided is an error, but in shadow, and but where another
// limit refuses the request. Errors are ErrNoDomain, ErrNoDescriptors, ErrTooManyDescriptors,
// ErrUnknownField, ErrNoConfig, ErrOverride, and those of shardlimit.Limiter, such as
// ErrUnavailable.
func (s *Service) ShouldRateLimit(ctx context.Context, request *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	asks, err := s.asksOf(request)
	if err == nil {
		err = s.decideAll(ctx, asks)
	}
	if err != nil && s.refused(asks) {
		err = nil // by a limit that did decide; what the others would say changes nothing
	}
	if err != nil {
		giveBack(ctx, asks)
		s.meters.errors.Add(ctx, 1)
		return nil, err
	}
	refused := s.refused(asks)
	if refused && s.o.Charge == Together && !s.o.Shadow {
		giveBack(ctx, asks)
	}
	answer := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	for _, a := range asks {
		s.count(ctx, a)
		answer.Statuses = append(answer.Statuses, a.status())
	}
	switch {
	case refused && s.o.Shadow:
		s.meters.globalShadow.Add(ctx, 1)
	case refused:
		answer.OverallCode = rls.RateLimitResponse_OVER_LIMIT
	}
	if s.o.Headers && !s.o.Shadow {
		answer.ResponseHeadersToAdd = headersOf(asks)
	}
	return answer, nil
}

// refused reports whether the limits refuse a request.
func (s *Service) refused(asks []*ask) bool {
	quotas, used := 0, 0
	for _, a := range asks {
		over := a.refuses()
		if a.Rule != nil && a.Quota {
			quotas++
			if over {
				used++
			}
		} else if over {
			return true
		}
	}
	return quotas > 0 && used == quotas
}

// refuses reports whether the descriptor is over a limit that is not in shadow.
func (a *ask) refuses() bool { return a.over && !a.Shadow }

// status is what the answer says of a descriptor.
func (a *ask) status() *rls.RateLimitResponse_DescriptorStatus {
	st := &rls.RateLimitResponse_DescriptorStatus{Code: rls.RateLimitResponse_OK}
	if a.Rule == nil {
		return st
	}
	st.LimitRemaining = uint32(min(max(a.remaining, 0), math.MaxUint32))
	if a.Unlimited {
		return st
	}
	if a.refuses() {
		st.Code = rls.RateLimitResponse_OVER_LIMIT
	}
	st.CurrentLimit, st.DurationUntilReset = a.limit.said, durationpb.New(a.reset)
	return st
}

// headersOf tells of the descriptor that matters most: of those that refuse the one that does so
// for longest, else the one that has least left. Limits in shadow have clients do nothing, and what
// the outage policy says tells nothing of a limit.
func headersOf(asks []*ask) []*core.HeaderValue {
	var most *ask
	for _, a := range asks {
		if a.Rule == nil || a.Unlimited || a.Shadow || a.degraded || a.err != nil {
			continue
		}
		if most == nil || a.before(most) {
			most = a
		}
	}
	if most == nil {
		return nil
	}
	header := func(name string, n int64) *core.HeaderValue {
		return &core.HeaderValue{Key: name, Value: strconv.FormatInt(n, 10)}
	}
	return []*core.HeaderValue{
		header(HeaderLimit, int64(most.Requests)), header(HeaderRemaining, max(most.remaining, 0)),
		header(HeaderReset, int64((most.reset+time.Second-1)/time.Second)),
	}
}

// before reports whether headers tell of a rather than of b.
func (a *ask) before(b *ask) bool {
	switch {
	case a.refuses() != b.refuses():
		return a.refuses()
	case a.refuses():
		return a.reset > b.reset
	}
	return a.remaining < b.remaining
}

package envoylimit

import (
	"context"
	"errors"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are the metrics of a Service, under the names of envoyproxy/ratelimit.
type meters struct {
	total, within, near, over, shadow metric.Int64Counter // hits, by domain and descriptor
	globalShadow, errors              metric.Int64Counter // requests
	loads                             metric.Int64Counter // configurations, by result
}

// nearLimit is the part of a limit above which hits count as near it.
const nearLimit = 0.8

// Results of loading a configuration.
const loadOK, loadFailed = "success", "error"

func newMeters(provider metric.MeterProvider) (*meters, error) {
	meter := provider.Meter("github.com/shardlimit/shardlimit/envoylimit")
	m := &meters{}
	var errs []error
	for _, c := range []struct {
		to                *metric.Int64Counter
		name, unit, about string
	}{
		{&m.total, "total_hits", "{hit}", "Hits of a rule."},
		{&m.within, "within_limit", "{hit}", "Hits of a rule that were within its limit."},
		{&m.near, "near_limit", "{hit}", "Hits of a rule that were within its limit, but near it."},
		{&m.over, "over_limit", "{hit}", "Hits of a rule that were over its limit."},
		{&m.shadow, "shadow_mode", "{hit}", "Hits that were over the limit of a rule in shadow mode."},
		{&m.globalShadow, "global_shadow_mode", "{request}", "Requests that only the global shadow mode let pass."},
		{&m.errors, "errors", "{request}", "Requests about which nothing could be decided."},
		{&m.loads, "config_load", "{load}", "Configurations that were loaded, by result."},
	} {
		var err error
		*c.to, err = meter.Int64Counter("ratelimit.service."+c.name, metric.WithUnit(c.unit),
			metric.WithDescription(c.about))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	// A counter that begins with its first event has not risen for those who watch how it rises.
	for _, result := range []string{loadOK, loadFailed} {
		m.loaded(context.Background(), result, 0)
	}
	return m, nil
}

// loaded counts configurations that were loaded, with or without an error.
func (m *meters) loaded(ctx context.Context, result string, n int64) {
	m.loads.Add(ctx, n, metric.WithAttributes(attribute.String("result", result)))
}

// count tells the metrics of a descriptor.
func (s *Service) count(ctx context.Context, a *ask) {
	if a.Rule == nil || a.hits == 0 || a.err != nil {
		return
	}
	hits, with := a.hits, metric.WithAttributeSet(attribute.NewSet(attribute.String("domain", a.Domain),
		attribute.String("descriptor", a.Metric)))
	s.meters.total.Add(ctx, hits, with)
	switch {
	case a.over:
		s.meters.over.Add(ctx, hits, with)
		if a.Shadow {
			s.meters.shadow.Add(ctx, hits, with)
		}
	default:
		s.meters.within.Add(ctx, hits, with)
		used := float64(int64(a.Requests) - a.remaining)
		if !a.Unlimited && used > math.Floor(float64(a.Requests)*nearLimit) {
			s.meters.near.Add(ctx, hits, with)
		}
	}
}

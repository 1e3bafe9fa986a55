package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// The rules of a large configuration for Envoy keep series of their own; what is beyond the limit
// shares one.
func TestSoManySeriesAreTold(t *testing.T) {
	for limit, want := range map[int]int{defaultSeries: 10_000, 0: 10_000, 3000: 2999} {
		meters, metrics, err := newMeters(limit)
		if err != nil {
			t.Fatal(err)
		}
		c, err := meters.Meter("m").Int64Counter("hits")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10_000 {
			c.Add(t.Context(), 1, metric.WithAttributes(attribute.String("descriptor", fmt.Sprint("d", i))))
		}
		w := httptest.NewRecorder()
		metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if n := strings.Count(w.Body.String(), `descriptor="d`); n != want {
			t.Errorf("with a limit of %d there are %d series", limit, n)
		}
		if over := strings.Contains(w.Body.String(), "otel_metric_overflow"); over != (want < 10_000) {
			t.Errorf("with a limit of %d, others share one: %v", limit, over)
		}
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The rules of a large configuration for Envoy keep series of their own, more than the metrics
// library keeps of itself.
func TestManySeriesAreTold(t *testing.T) {
	meters, metrics, err := newMeters()
	limittest.Must(t, err)
	c, err := meters.Meter("m").Int64Counter("hits")
	limittest.Must(t, err)
	const many = 10_000
	for i := range many {
		c.Add(t.Context(), 1, metric.WithAttributes(attribute.String("descriptor", fmt.Sprint("d", i))))
	}
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if n := strings.Count(w.Body.String(), `descriptor="d`); n != many {
		t.Errorf("%d series of %d", n, many)
	}
}

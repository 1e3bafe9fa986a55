package main

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// defaultSeries is enough for what 10,000 rules of Envoy make of any metric, some ten series each.
const defaultSeries = 100_000

// newMeters returns what takes measurements, and what shows them to Prometheus, with those of the
// process and of Go. A metric has so many series at most, without an end if that is 0; what is
// beyond is one series with the label otel_metric_overflow.
func newMeters(series int) (*sdkmetric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	err = errors.Join(err, registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, nil, err
	}
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(series),
		sdkmetric.WithResource(
			resource.NewSchemaless(attribute.String("service.name", "shardlimit"))))
	return meters, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), nil
}

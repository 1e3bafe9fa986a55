// Package telemetrytest reads what shardlimit tells back with libraries of others: metrics and
// spans with the OpenTelemetry SDK, header fields with a parser of structured fields. It is a
// module of its own, so that programs which use shardlimit do not depend on these.
package telemetrytest

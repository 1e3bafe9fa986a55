// Package telemetrytest reads the metrics and spans of shardlimit back through
// the OpenTelemetry SDK. It is a module of its own, so that programs which use
// shardlimit do not depend on the SDK.
package telemetrytest

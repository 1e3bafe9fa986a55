// Package rules reads the configuration of Envoy's rate limit service, the YAML of
// github.com/envoyproxy/ratelimit, and finds the rule that a descriptor falls under. It does no
// I/O and reads no clock.
package rules

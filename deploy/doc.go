// Package deploy checks the files in this folder: that a real Prometheus answers every query of
// the dashboard and the rules with what shardlimit exports, that Grafana's own types read the
// dashboard, and that images, services and units name flags and files that exist. It has no other
// code, and is a module of its own, so that nothing else depends on what the checks need.
package deploy

package main

import (
	"github.com/shardlimit/shardlimit/bench/internal/envoy"
	"github.com/shardlimit/shardlimit/bench/internal/fleet"
	"github.com/shardlimit/shardlimit/bench/internal/gateway"
)

// A scenario with several client processes starts this program again; such a
// process must not get as far as reading flags.
func init() {
	fleet.ServeIfWorker()
	gateway.ServeIfServer()
	envoy.ServeIfService()
}

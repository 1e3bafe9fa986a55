package main

import "github.com/shardlimit/shardlimit/bench/internal/fleet"

// A scenario with several client processes starts this program again; such a
// process must not get as far as reading flags.
func init() { fleet.ServeIfWorker() }

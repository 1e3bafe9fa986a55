package scenario

import (
	"context"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

const clusterMasters = 3

var clusterKeys = Scenario{
	Name:  "cluster",
	Title: "a limit for each of many keys, on a cluster",
	Takes: 30 * time.Second,
	Question: "As `keys`" + `, on a Redis Cluster of three masters that share this machine with the callers. Clients
connect as to any cluster. A script call can have to do with one slot only: keys of a Family lie in 256
of them, and what goes to several slots of a master goes there together.`,
	Run: runClusterKeys,
}

func runClusterKeys(ctx context.Context, env Env, result *report.Result) error {
	first, err := env.start(ctx, result) // notes its version
	if err != nil {
		return err
	}
	first.Close()
	c, err := server.StartCluster(ctx, env.Redis, clusterMasters)
	if err != nil {
		return err
	}
	defer c.Close()
	setting(result, "Cluster", "%d masters without replicas", clusterMasters)
	cases := []keysCase{{name: "50k", keys: 50_000, callers: []int{64, 1000}}}
	if env.Smoke {
		cases = []keysCase{{name: "200", keys: 200, callers: []int{64}}}
	}
	rivals := slices.DeleteFunc(slices.Clone(env.Rivals), func(r rival.Rival) bool { return !r.Clustered })
	err = playKeys(ctx, env, result, c, rivals, cases)
	for i := range result.Views {
		result.Views[i].Keep = false // pages show the picture of keys
	}
	return err
}

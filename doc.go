// Package shardlimit is a distributed rate limiter on Redis: one logical limit, split over many
// nodes, shared fairly by many processes, never exceeded.
//
// A limit of so many permits per window is split into shards, each on some node, and each shard has
// a share; the shares sum to the limit. One Lua script decides against a shard's share, by the
// clock of its node, so shards know nothing of each other and no clocks need agree. All calls of a
// process that reach a shard while a script call is under way share the next one. A call whose
// shard has nothing goes on to the others. While more is asked than there is, each participant gets
// its part by weight. When the limit changes, capacity moves between shards: a share is lowered
// first, and only what was given up is raised elsewhere. So the limit holds at every instant, also
// while nodes fail.
//
// A Client holds the connections, a [Limiter] is a handle on one named limit:
//
//	client, err := shardlimit.New(shardlimit.Config{Nodes: []shardlimit.Node{
//		{Redis: rueidis.ClientOption{InitAddress: []string{"redis-a:6379"}}},
//		{Redis: rueidis.ClientOption{InitAddress: []string{"redis-b:6379"}}},
//	}})
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	pulls, err := client.Limiter(ctx, "pulls", shardlimit.PerSecond(2000))
//	if err != nil {
//		return err
//	}
//	if err := pulls.Wait(ctx); err != nil { // or Allow, which answers at once
//		return err
//	}
//
// A denial is a value ([Decision]), never an error. An error means that no decision was made.
//
// [Family] gives each of many keys a limit of its own, [All] makes several limits one, and
// [Limiter.As] calls for another participant. Package embedded runs nodes inside the process, for
// development and tests. docs/reference/promises.md says what is promised, and which tests prove
// it.
package shardlimit

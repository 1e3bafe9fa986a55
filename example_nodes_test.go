package shardlimit_test

import (
	"context"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

// A node is about to go. A process lists it with Drain, and moves the shards that are there: they
// leave while they are used.
func ExampleLimiter_Rebalance() {
	servers := must(embedded.Start(2))
	defer servers.Close()
	nodes := servers.Nodes()
	ctx := context.Background()
	var limiter *shardlimit.Limiter
	for _, drain := range []bool{false, true} { // the process before, and the one after it
		nodes[1].Drain = drain
		client := connect(nodes)
		defer client.Close()
		limiter = must(client.Limiter(ctx, "mails", shardlimit.PerHour(100)))
	}
	check(limiter.Rebalance(ctx))
	for {
		state := must(limiter.Peek(ctx))
		if state.Settled {
			fmt.Println(len(state.Shards), "shard, on the other node:", state.Shards[0].Node == nodes[0].Name)
			break
		}
		time.Sleep(time.Millisecond)
	}
	// Output: 1 shard, on the other node: true
}

// A process starts with one node more in its list than the others had, and spreads the limits over
// it.
func ExampleClient_Rebalance() {
	servers := must(embedded.Start(2))
	defer servers.Close()
	nodes := servers.Nodes()
	ctx := context.Background()
	for _, list := range [][]shardlimit.Node{nodes[:1], nodes} {
		client := connect(list)
		defer client.Close()
		limiter := must(client.Limiter(ctx, "mails", shardlimit.PerHour(100))) // Rebalance moves what is open
		check(client.Rebalance(ctx))
		state, _ := limiter.Peek(ctx)
		fmt.Println("shards:", len(state.Shards))
	}
	// Output:
	// shards: 1
	// shards: 2
}

// A health check asks whether nodes answer.
func ExampleClient_Ping() {
	servers := must(embedded.Start(2))
	defer servers.Close()
	client := connect(servers.Nodes())
	defer client.Close()
	for _, node := range client.Ping(context.Background()) {
		fmt.Println(node.Err == nil)
	}
	// Output:
	// true
	// true
}

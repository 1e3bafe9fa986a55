package shardlimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

// A node is added to a running process, and the limit spread over it.
func ExampleClient_SetNodes() {
	servers, err := embedded.Start(2)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	nodes := servers.Nodes()
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes[:1],
		CallTimeout: time.Minute}) // the patience of a test; programs leave it out
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	limiter, err := client.Limiter(ctx, "mails", shardlimit.PerHour(100))
	if err != nil {
		log.Fatal(err)
	}
	if err := client.SetNodes(ctx, nodes); err != nil { // in every process
		log.Fatal(err)
	}
	before, _ := limiter.Peek(ctx)
	if err := client.Rebalance(ctx); err != nil { // in one of them
		log.Fatal(err)
	}
	after, _ := limiter.Peek(ctx)
	fmt.Println(len(before.Shards), "shard, then", len(after.Shards))
	// Output: 1 shard, then 2
}

// A node is about to go: its shards move to the others while they are used.
func ExampleLimiter_Rebalance() {
	servers, err := embedded.Start(2)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	nodes := servers.Nodes()
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes,
		CallTimeout: time.Minute}) // the patience of a test; programs leave it out
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	limiter, err := client.Limiter(ctx, "mails", shardlimit.PerHour(100))
	if err != nil {
		log.Fatal(err)
	}
	nodes[1].Drain = true
	if err := client.SetNodes(ctx, nodes); err != nil {
		log.Fatal(err)
	}
	if err := limiter.Rebalance(ctx); err != nil {
		log.Fatal(err)
	}
	for {
		state, err := limiter.Peek(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if state.Settled {
			fmt.Println(len(state.Shards), "shard, on the other node:", state.Shards[0].Node == nodes[0].Name)
			break
		}
		time.Sleep(time.Millisecond)
	}
	// Output: 1 shard, on the other node: true
}

// Rebalance of a client arranges all limits that it has opened over the nodes as they are now.
func ExampleClient_Rebalance() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	for _, name := range []string{"mails", "exports"} { // those that nobody here uses are opened for it
		if _, err := client.Limiter(ctx, name, shardlimit.PerHour(100)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(client.Rebalance(ctx)) // nothing had to move
	// Output: <nil>
}

// A health check asks whether nodes answer.
func ExampleClient_Ping() {
	servers, err := embedded.Start(2)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(),
		CallTimeout: time.Minute}) // the patience of a test; programs leave it out
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, node := range client.Ping(context.Background()) {
		fmt.Println(node.Err == nil)
	}
	// Output:
	// true
	// true
}

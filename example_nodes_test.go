package shardlimit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

// A node is about to go. A process lists it with Drain, and moves the shards that are there: they
// leave while they are used.
func ExampleLimiter_Rebalance() {
	servers, err := embedded.Start(2)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	nodes := servers.Nodes()
	ctx := context.Background()
	var limiter *shardlimit.Limiter
	for _, drain := range []bool{false, true} { // the process before, and the one after it
		nodes[1].Drain = drain
		client, err := shardlimit.New(shardlimit.Config{Nodes: nodes,
			CallTimeout: time.Minute}) // the patience of a test; programs leave it out
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		limiter, err = client.Limiter(ctx, "mails", shardlimit.PerHour(100))
		if err != nil {
			log.Fatal(err)
		}
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

// A process starts with one node more in its list than the others had, and spreads the limits over
// it.
func ExampleClient_Rebalance() {
	servers, err := embedded.Start(2)
	if err != nil {
		log.Fatal(err)
	}
	defer servers.Close()
	nodes := servers.Nodes()
	ctx := context.Background()
	for _, list := range [][]shardlimit.Node{nodes[:1], nodes} {
		client, err := shardlimit.New(shardlimit.Config{Nodes: list,
			CallTimeout: time.Minute}) // the patience of a test; programs leave it out
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		limiter, err := client.Limiter(ctx, "mails", shardlimit.PerHour(100)) // Rebalance moves what is open
		if err != nil {
			log.Fatal(err)
		}
		if err := client.Rebalance(ctx); err != nil {
			log.Fatal(err)
		}
		state, _ := limiter.Peek(ctx)
		fmt.Println("shards:", len(state.Shards))
	}
	// Output:
	// shards: 1
	// shards: 2
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

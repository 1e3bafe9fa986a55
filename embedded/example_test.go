package embedded_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

// must returns what a call returned that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func Example() {
	servers := must(embedded.Start(3))
	defer servers.Close()

	cfg := shardlimit.Config{Nodes: servers.Nodes()} // for shardlimit.New
	fmt.Println(len(cfg.Nodes), "nodes, the first is", cfg.Nodes[0].Name)
	// Output: 3 nodes, the first is embedded-0
}

func ExampleServers_Stop() {
	servers := must(embedded.Start(2))
	defer servers.Close()

	reach := func() {
		conn, err := net.Dial("tcp", servers.Addr(1))
		if err == nil {
			_ = conn.Close()
		}
		fmt.Println("reachable:", err == nil)
	}
	_ = servers.Stop(1)
	reach()
	_ = servers.Resume(1) // Lose would bring it back empty
	reach()
	// Output:
	// reachable: false
	// reachable: true
}

// A node that comes back empty is what a limiter has to notice: see Config.AfterLoss.
func ExampleServers_Lose() {
	servers := must(embedded.Start(1))
	defer servers.Close()
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), AfterLoss: shardlimit.Quarantine,
		CallTimeout: time.Minute})) // the patience of a test; programs leave it out
	defer client.Close()
	ctx := context.Background()
	limiter := must(client.Limiter(ctx, "mails", shardlimit.PerHour(5)))
	d, err := limiter.AllowN(ctx, 3)
	fmt.Println(d.Allowed, err)
	_ = servers.Lose(0)
	for d, err = limiter.Allow(ctx); err != nil; d, err = limiter.Allow(ctx) {
		time.Sleep(10 * time.Millisecond) // until the connection is there again
	}
	fmt.Println(d.Allowed, "because nobody knows any more that only 3 of 5 were used")
	// Output:
	// true <nil>
	// false because nobody knows any more that only 3 of 5 were used
}

// In a bubble of testing/synctest the same nodes are in the time of the test.
func ExampleStartInMemory() {
	servers := must(embedded.StartInMemory(1))
	defer servers.Close()
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(),
		CallTimeout: time.Minute})) // the patience of a test; programs leave it out
	defer client.Close()
	ctx := context.Background()
	limiter := must(client.Limiter(ctx, "mails", shardlimit.PerHour(5)))
	d, err := limiter.AllowN(ctx, 3)
	fmt.Println(d.Remaining, "left", err)
	// Output: 2 left <nil>
}

// Command quickstart is the first program of docs/getting-started.md. It needs no Redis.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

func main() {
	servers := must(embedded.Start(3)) // three nodes in this process, in place of Redis
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes()}))
	logins := must(client.Limiter(context.Background(), "logins", shardlimit.PerMinute(2)))
	for range 3 {
		d := must(logins.Allow(context.Background()))
		fmt.Println(d.Allowed, d.Remaining, "left, retry after", d.RetryAfter.Round(time.Second))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

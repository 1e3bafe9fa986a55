// Command servers is the program of docs/getting-started.md. It needs Redis.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/shardlimit/shardlimit"
)

func main() {
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // 127.0.0.1:7001,127.0.0.1:7002
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, Logger: slog.Default()}))
	defer client.Close()
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

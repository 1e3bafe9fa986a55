// Command worker is the batch worker of README.md.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"

	"github.com/shardlimit/shardlimit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{
		Nodes: nodes, OnOutage: shardlimit.WaitOut, Logger: slog.Default()}))
	defer client.Close()
	pulls := must(client.Limiter(ctx, "pulls", shardlimit.PerSecond(2000)))
	for {
		if err := pulls.Wait(ctx); err != nil {
			log.Print("stopped: ", err) // after Ctrl-C: interrupt signal received
			return
		}
		pull() // at most 2,000 in any second, over all machines
	}
}

// pull is the work.
func pull() {}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

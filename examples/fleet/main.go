// Command fleet is the client of docs/howto/http-gateway.md: one of many that call the same server.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{
		Nodes: nodes, OnOutage: shardlimit.WaitOut, Logger: slog.Default()}))
	defer client.Close()
	hosts := must(client.Family(ctx, "calls", shardlimit.PerSecond(50))) // to each host, from the whole fleet
	pauses := must(httplimit.SharedPauses(ctx, client, "pauses", 5*time.Minute))
	api := http.Client{Transport: &httplimit.Transport{Pauses: pauses, Retries: 2,
		Permits: httplimit.WaitPerKey(hosts, httplimit.Host)}}
	for ctx.Err() == nil { // Ctrl-C also ends a wait for permits, and a pause
		request := must(http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("URL"), nil))
		if answer, err := api.Do(request); err != nil {
			log.Print(err)
		} else if err := answer.Body.Close(); err != nil {
			log.Print(err)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

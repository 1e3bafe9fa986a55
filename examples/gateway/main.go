// Command gateway is the HTTP gateway of README.md.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func main() {
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, Logger: slog.Default(),
		OnOutage: shardlimit.FailLocal, Participants: 20})) // in an outage each enforces a 20th
	addresses := must(client.Family(context.Background(), "addresses", shardlimit.PerMinute(1200)))
	keys := must(client.Family(context.Background(), "api-keys", shardlimit.PerMinute(600)))
	// Keys may be made up.
	first := httplimit.New(httplimit.PerKey(addresses, httplimit.RemoteIP), httplimit.Options{Policy: "address"})
	limit := httplimit.New(httplimit.PerKey(keys, httplimit.Header("X-API-Key")), httplimit.Options{Policy: "key"})
	http.Handle("POST /orders", first(limit(http.HandlerFunc(orders))))
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil)) // :8080
}

// orders is the service behind the limit.
func orders(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

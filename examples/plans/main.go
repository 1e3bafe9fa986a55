// Command plans is an HTTP gateway whose customers have keys and plans in a database. A key that is
// not known is refused before it is counted, and made-up ones are held by the limit of their
// address. A change in the database is felt within a second. While the database is down,
// customers who were here lately go on with the plan they had, and others are answered with 503.
//
//	DB=shop.db plans shop.sql                               # makes the tables
//	DB=shop.db REDIS=redis-a:6379,… LISTEN=:8080 plans      # serves
package main

import (
	"context"
	"database/sql"
	"log"
	"log/slog"
	"net/http"
	"os"

	_ "modernc.org/sqlite"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func main() {
	ctx := context.Background()
	db := must(sql.Open("sqlite", "file:"+os.Getenv("DB")+"?_pragma=busy_timeout(1000)"))
	db.SetMaxOpenConns(16)
	if len(os.Args) > 1 {
		must(db.ExecContext(ctx, string(must(os.ReadFile(os.Args[1])))))
		return
	}
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS")))
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, Logger: slog.Default(),
		OnOutage: shardlimit.FailLocal, Participants: 20})) // in an outage each enforces a 20th
	addresses := must(client.Family(ctx, "addresses", shardlimit.PerMinute(1200)))
	plans := must(client.Family(ctx, "plans", shardlimit.PerMinute(1))) // Per of all, Permits come with the call
	all := &customers{db: db, known: map[string]seen{}}
	first := httplimit.New(httplimit.PerKey(addresses, httplimit.RemoteIP), httplimit.Options{Policy: "address"})
	limit := httplimit.New(func(r *http.Request) httplimit.Limiter {
		c := customerOf(r)
		return plans.LimiterWith(c.id, shardlimit.Limit{Permits: c.permits, Revision: c.changed})
	}, httplimit.Options{Policy: "plan"})
	http.Handle("POST /orders", first(all.authenticated(limit(http.HandlerFunc(orders)))))
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), nil))
}

// orders is the service behind the limits.
func orders(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

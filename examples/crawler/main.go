// Command crawler reads 2,000 hosts: each at a pace of its own, and all together at one rate,
// whatever number of machines run it. A host that answers 429 is left alone by all.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// paceOf stands for what robots.txt of a host, or a table of one's own, allows a second.
func paceOf(host string) shardlimit.Limit {
	return shardlimit.Limit{Permits: 1 + int64(len(host))%3} // its Per is the family's: a second
}

// urgent marks a request that somebody waits for. The rest of the crawl is there every day.
type urgent struct{}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, OnOutage: shardlimit.WaitOut,
		Logger: slog.Default()}))
	defer client.Close()
	paces := must(client.Family(ctx, "paces", shardlimit.PerSecond(1)))
	all := must(client.Limiter(ctx, "crawl", shardlimit.PerSecond(1000)))
	pauses := must(httplimit.SharedPauses(ctx, client, "pauses", 5*time.Minute))

	web, refused := fakeWeb()
	defer web.Close()
	api := http.Client{Transport: &httplimit.Transport{Base: only(web), Pauses: pauses, Retries: 1,
		// Both limits are waited for as one shardlimit.Set: a slow host holds nothing of the global
		// rate while it is waited for. The Transport gives permits back that a pause made useless.
		Permits: func(r *http.Request) httplimit.Waiter {
			line := all.As("background", 1)
			if r.Context().Value(urgent{}) != nil {
				line = all.As("urgent", 9) // nine tenths of the rate, if it wants so much
			}
			pace := paces.LimiterWith(r.URL.Host, paceOf(r.URL.Host))
			return httplimit.All(httplimit.Policy{Name: "host", Limiter: pace},
				httplimit.Policy{Name: "all", Limiter: line})
		},
		OnPause: func(r *http.Request, status int, pause time.Duration, _ error) {
			log.Printf("%s says %d: nobody of the fleet calls it for %s", r.URL.Host, status, pause)
		}}}

	begin, pages := time.Now(), make(chan int)
	var workers sync.WaitGroup
	var read atomic.Int64
	for range 100 { // more than the rate needs: workers of slow hosts wait
		workers.Go(func() {
			for page := range pages {
				if err := get(ctx, &api, page); err == nil {
					read.Add(1)
				} else if ctx.Err() == nil {
					log.Print(err)
				}
			}
		})
	}
	for page := 0; page < 2000 && ctx.Err() == nil; page++ {
		pages <- page
	}
	close(pages)
	workers.Wait()
	fmt.Printf("pages: %d in %s, answers 429: %d\n", read.Load(), time.Since(begin), refused.Load())
}

// get reads one page. Every tenth is urgent.
func get(ctx context.Context, api *http.Client, page int) error {
	if page%10 == 0 {
		ctx = context.WithValue(ctx, urgent{}, true)
	}
	r := must(http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://host%d.example/", page), nil))
	answer, err := api.Do(r)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode == http.StatusOK {
		return err
	}
	return errors.New(answer.Status)
}

// fakeWeb answers for every host. One of them asks for a pause, once.
func fakeWeb() (web *httptest.Server, refused *atomic.Int64) {
	refused = new(atomic.Int64)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "host42.example" && refused.CompareAndSwap(0, 1) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})), refused
}

// only has every host be this server.
func only(web *httptest.Server) http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", web.Listener.Addr().String())
	}, DisableKeepAlives: true} // each host is read once
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

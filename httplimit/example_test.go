package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func Example() {
	client, closed := exampleClient()
	defer closed()
	keys := must(client.Family(context.Background(), "api-keys", shardlimit.PerMinute(2)))

	limit := httplimit.New(httplimit.PerKey(keys, func(r *http.Request) string {
		return r.Header.Get("X-API-Key")
	}), httplimit.Options{Policy: "per-key"})
	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ordered") })
	mux := http.NewServeMux()
	mux.Handle("/orders", limit(orders))

	for range 3 {
		r := httptest.NewRequest(http.MethodPost, "/orders", nil)
		r.Header.Set("X-API-Key", "ann")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "per-key";r=1;t=60 ""
	// 200 "per-key";r=0;t=60 ""
	// 429 "per-key";r=0;t=60 "60"
}

func ExampleDecisionOf() {
	cached := func(*http.Request) bool { return true }
	var limiter *shardlimit.Limiter
	_ = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d, ok := httplimit.DecisionOf(r.Context()); ok && cached(r) {
			_ = limiter.Settle(r.Context(), d, 0) // an answer from the cache costs nothing
		}
	})
	fmt.Println("permits that were not used can be given back")
	// Output: permits that were not used can be given back
}

// One limit for all requests of a route.
func ExampleOne() {
	limiter := httplimit.All() // or of client.Limiter
	limit := httplimit.New(httplimit.One(limiter), httplimit.Options{
		Cost: func(*http.Request) int64 { return 5 },
	})
	http.NewServeMux().Handle("POST /upload", limit(http.NotFoundHandler()))
	fmt.Println("requests that are too many are answered with 429")
	// Output: requests that are too many are answered with 429
}

// Anonymous callers are told apart by their addresses; those of IPv6 by the network, because a
// household has a whole one.
func ExampleRemoteIP() {
	for _, address := range []string{"192.0.2.7:4711", "[2001:db8:1:2:3:4:5:6]:4711"} {
		fmt.Println(httplimit.RemoteIP(&http.Request{RemoteAddr: address}))
	}
	// Output:
	// 192.0.2.7
	// 2001:db8:1:2::/64
}

// A handler that asks for permits itself tells what is left as a middleware does.
func ExampleDescribe() {
	client, closed := exampleClient()
	defer closed()
	uploads := must(client.Limiter(context.Background(), "uploads", shardlimit.PerMinute(10)))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := uploads.AllowUpTo(r.Context(), 4)
		if err != nil {
			http.Error(w, "no decision was possible", http.StatusServiceUnavailable)
			return
		}
		httplimit.Describe(w.Header(), httplimit.Draft, httplimit.Policy{Name: "uploads", Limiter: uploads}, d)
		fmt.Fprint(w, d.Granted)
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	fmt.Println(w.Body, "granted;", w.Header().Get("RateLimit-Policy"), "and", w.Header().Get("RateLimit"))
	// Output: 4 granted; "uploads";q=10;w=60 and "uploads";r=6;t=60
}

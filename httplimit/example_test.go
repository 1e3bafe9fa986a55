package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/httplimit"
)

// exampleClient is a client of a node in this process, and how to close both.
func exampleClient() (*shardlimit.Client, func()) {
	servers := must(embedded.Start(1))
	client := must(shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(),
		CallTimeout: time.Minute})) // the patience of a test; programs leave it out
	return client, func() { client.Close(); servers.Close() }
}

// must is what a call returned that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

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

func ExampleAddress() {
	key := httplimit.Address(httplimit.AddressOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	r := &http.Request{RemoteAddr: "10.0.0.1:4711", Header: http.Header{}}
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 192.0.2.7, 10.0.0.2") // the first was made up
	fmt.Println(key(r))
	// Output: 192.0.2.7
}

func ExampleHeader() {
	r := &http.Request{Host: "API.example:8080", Header: http.Header{"X-Api-Key": {"ann"}}}
	fmt.Println(httplimit.Header("X-API-Key")(r), httplimit.Header("host")(r))
	// Output: ann api.example:8080
}

func ExampleCookie() {
	r := &http.Request{Header: http.Header{"Cookie": {"session=s1"}}}
	fmt.Println(httplimit.Cookie("session")(r))
	// Output: s1
}

func ExampleJoin() {
	key := httplimit.Join(httplimit.Header("X-API-Key"), httplimit.Method, httplimit.Route)
	r := &http.Request{Method: http.MethodPut, Pattern: "/orders/{id}", Header: http.Header{"X-Api-Key": {"ann"}}}
	fmt.Println(key(r))
	// Output: 3:ann3:PUT12:/orders/{id}
}

func ExampleFirstOf() {
	key := httplimit.FirstOf(httplimit.Header("X-API-Key"), httplimit.RemoteIP)
	fmt.Println(key(&http.Request{RemoteAddr: "192.0.2.7:4711"}))
	// Output: 1:192.0.2.7
}

func ExampleRoute() {
	fmt.Println(httplimit.Route(&http.Request{Pattern: "GET /orders/{id}"}))
	// Output: GET /orders/{id}
}

func ExampleMethod() {
	fmt.Println(httplimit.Method(&http.Request{}))
	// Output: GET
}

func ExampleHost() {
	fmt.Println(httplimit.Host(&http.Request{URL: &url.URL{Host: "API.example:8443"}}))
	// Output: api.example:8443
}

func ExampleAll() {
	client, closed := exampleClient()
	defer closed()
	minute := must(client.Limiter(context.Background(), "minute", shardlimit.PerMinute(100)))
	hour := must(client.Limiter(context.Background(), "hour", shardlimit.PerHour(1000)))
	h := get(httplimit.New(httplimit.One(httplimit.All(httplimit.Policy{Name: "minute", Limiter: minute},
		httplimit.Policy{Name: "hour", Limiter: hour})), httplimit.Options{})(ok)).Header()
	fmt.Println(h.Get("RateLimit-Policy"))
	fmt.Println(h.Get("RateLimit"))
	// Output:
	// "minute";q=100;w=60, "hour";q=1000;w=3600
	// "minute";r=99;t=60, "hour";r=999;t=3600
}

func ExamplePerKey() {
	client, closed := exampleClient()
	defer closed()
	users := must(client.Family(context.Background(), "users", shardlimit.PerMinute(1)))
	limit := httplimit.New(httplimit.PerKey(users, httplimit.RemoteIP), httplimit.Options{})
	for range 2 {
		fmt.Println(get(limit(ok)).Body)
	}
	// Output:
	// served
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"The quota of a policy is exceeded","status":429,"detail":"too many requests","policy":"default","violated-policies":["default"],"retry_after":60,"reason":"full"}
}

// A limit that is tried in Shadow refuses nobody, and what it would refuse is told.
func ExampleNew() {
	client, closed := exampleClient()
	defer closed()
	tried := must(client.Limiter(context.Background(), "tried",
		shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Shadow}))
	limit := httplimit.New(httplimit.One(tried), httplimit.Options{})(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			d, _ := httplimit.DecisionOf(r.Context())
			fmt.Fprint(w, "served; too many: ", d.Shadowed)
		}))
	for range 2 {
		fmt.Println(get(limit).Body)
	}
	// Output:
	// served; too many: false
	// served; too many: true
}

// A body that comes in chunks does not tell its length before: an upload costs what was read.
func ExampleSettle() {
	client, stop := exampleClient()
	defer stop()
	uploads := must(client.Limiter(context.Background(), "megabytes", shardlimit.PerHour(100)))
	limit := httplimit.New(httplimit.One(uploads), httplimit.Options{
		Cost: func(r *http.Request) int64 { return 1 + r.ContentLength/1_000_000 }, // an estimate
	})
	upload := limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, err := io.Copy(io.Discard, r.Body)
		if err := errors.Join(err, httplimit.Settle(r.Context(), 1+read/1_000_000)); err != nil {
			log.Print(err)
		}
	}))
	for _, told := range []int64{3_500_000, -1} {
		r := httptest.NewRequest(http.MethodPut, "/file", strings.NewReader(strings.Repeat("x", 3_500_000)))
		r.ContentLength = told
		upload.ServeHTTP(httptest.NewRecorder(), r)
		state, _ := uploads.Peek(context.Background())
		fmt.Println(state.Used)
	}
	// Output:
	// 4
	// 8
}

// An answer that cost the server nothing need not cost a permit.
func ExampleSettleSent() {
	client, stop := exampleClient()
	defer stop()
	limiter := must(client.Limiter(context.Background(), "calls", shardlimit.PerHour(100)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Cache", "HIT")
	}))
	defer server.Close()
	calls := http.Client{Transport: &httplimit.Transport{
		Permits: func(*http.Request) httplimit.Waiter { return limiter }}}
	answer, err := calls.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.Header.Get("X-Cache") == "HIT" {
		err = httplimit.SettleSent(context.Background(), answer, 0)
	}
	state, _ := limiter.Peek(context.Background())
	fmt.Println(state.Used, err)
	// Output: 0 <nil>
}

func ExampleSharedPauses() {
	client, closed := exampleClient()
	defer closed()
	pauses := must(httplimit.SharedPauses(context.Background(), client, "pauses", 5*time.Minute))
	hosts := must(client.Family(context.Background(), "hosts", shardlimit.PerSecond(100)))
	downstream := http.Client{Transport: &httplimit.Transport{
		Pauses: pauses, Permits: httplimit.WaitPerKey(hosts, httplimit.Host), Retries: 2}}
	downstream.CloseIdleConnections()
	fmt.Println("requests wait for permits, and for the end of pauses")
	// Output: requests wait for permits, and for the end of pauses
}

func ExampleWaitPerKey() {
	client, closed := exampleClient()
	defer closed()
	hosts := must(client.Family(context.Background(), "hosts", shardlimit.PerSecond(100)))
	r := &http.Request{URL: &url.URL{Host: "api.example"}}
	d, err := httplimit.WaitPerKey(hosts, httplimit.Host)(r).Acquire(context.Background(), 1)
	fmt.Println(d.Granted, err)
	// Output: 1 <nil>
}

func ExampleNewPauses() {
	pauses := httplimit.NewPauses(time.Minute)
	_ = pauses.Begin(context.Background(), "api.example", time.Hour)
	left, err := pauses.Left(context.Background(), "api.example")
	fmt.Println(left.Round(time.Second), err)
	// Output: 1m0s <nil>
}

func ExamplePolicies_Each() {
	client, closed := exampleClient()
	defer closed()
	ctx := context.Background()
	minute := must(client.Limiter(ctx, "minute", shardlimit.PerMinute(3)))
	hour := must(client.Limiter(ctx, "hour", shardlimit.PerHour(20)))
	both := httplimit.All(httplimit.Policy{Name: "minute", Limiter: minute},
		httplimit.Policy{Name: "hour", Limiter: hour})
	d, err := both.AllowN(ctx, 2)
	for _, said := range both.Each(d) {
		fmt.Println(said.Limit, "permits,", said.Remaining, "left", err)
	}
	// Output:
	// 3 permits, 1 left <nil>
	// 20 permits, 18 left <nil>
}

// Command llmproxy stands before a provider of a language model. Each customer has so many requests
// and so many tokens a minute, and all share what the provider sells to the whole fleet.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// planOf stands for a database: what a customer has bought, and its part of the provider's limit
// while customers want more than there is. The revision is when the plan was last changed.
func planOf(customer string) (requests, tokens shardlimit.Limit, weight float64) {
	changed := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	return shardlimit.Limit{Permits: 60, Revision: changed}, shardlimit.Limit{Permits: 90_000, Revision: changed},
		map[string]float64{"sk-ann": 1, "sk-bob": 4}[customer]
}

// proxy is the handler: every limit holds over all processes that run it.
type proxy struct {
	requests, tokens *shardlimit.Family
	provider         *shardlimit.Limiter
	upstream         string
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	customer := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	ofRequests, ofTokens, weight := planOf(customer)
	if weight == 0 { // unknown, and before any limit: who makes up keys shall not make keys in Redis
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	var ask struct {
		Prompt    string
		MaxTokens int64 `json:"max_tokens"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&ask); err != nil || ask.MaxTokens < 1 {
		http.Error(w, "a prompt and max_tokens are wanted", http.StatusBadRequest)
		return
	}
	// Nobody knows yet how long the answer will be, so the call takes the most that it can cost.
	estimate := int64(len(ask.Prompt))/4 + ask.MaxTokens
	requests := p.requests.LimiterWith(customer, ofRequests)
	tokens := p.tokens.LimiterWith(customer, ofTokens)
	call := shardlimit.All(requests.N(1), tokens.N(estimate), p.provider.As(customer, weight).N(estimate))
	d, err := call.Allow(r.Context())
	if err != nil { // no decision; of ErrExceedsLimit, which no waiting mends, one would say 400
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	each := call.Each(d) // the provider's own limit is no concern of the customer
	httplimit.Describe(w.Header(), httplimit.OpenAI, httplimit.Policy{Name: "requests", Limiter: requests}, each[0])
	httplimit.Describe(w.Header(), httplimit.OpenAI, httplimit.Policy{Name: "tokens", Limiter: tokens}, each[1])
	if !d.Allowed {
		// Last, so that Retry-After is that of the limit which refuses for longest.
		httplimit.Describe(w.Header(), httplimit.NoFields, httplimit.Policy{Limiter: tokens}, d)
		http.Error(w, fmt.Sprintf("%s: %s", d.Limiter(), d.Reason), http.StatusTooManyRequests)
		return
	}
	used, err := complete(r.Context(), p.upstream, ask.Prompt)
	if err := call.Settle(r.Context(), d, 1, used, used); err != nil {
		log.Print(err) // what is not given back leaves the window in a minute
	}
	_, _ = fmt.Fprintln(w, "tokens:", used, "error:", err)
}

// complete asks the provider what it used. An answer that never came has cost nothing.
func complete(ctx context.Context, url, prompt string) (used int64, err error) {
	r := must(http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(prompt)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = fmt.Fscan(answer.Body, &used)
	return used, err
}

func main() {
	ctx := context.Background()
	nodes := must(shardlimit.ParseNodes(os.Getenv("REDIS"))) // redis-a:6379,redis-b:6379
	client := must(shardlimit.New(shardlimit.Config{Nodes: nodes, Logger: slog.Default()}))
	defer client.Close()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, 1200) // the provider of this example tells how many tokens it used
	}))
	defer upstream.Close()
	server := httptest.NewServer(&proxy{upstream: upstream.URL, // limits of keys come with the calls
		requests: must(client.Family(ctx, "requests", shardlimit.PerMinute(60))),
		tokens:   must(client.Family(ctx, "tokens", shardlimit.PerMinute(90_000))),
		provider: must(client.Limiter(ctx, "provider", shardlimit.PerMinute(2_000_000)))})
	defer server.Close()
	for range 61 {
		show(server.URL, "sk-ann", 4000) // the last request is one too many
	}
	for range 2 {
		show(server.URL, "sk-bob", 89_000) // the second has too few tokens left
	}
}

// show sends one request and prints what came.
func show(url, customer string, most int) {
	r := must(http.NewRequest(http.MethodPost, url, strings.NewReader(
		fmt.Sprintf(`{"prompt": "a limit that holds", "max_tokens": %d}`, most))))
	r.Header.Set("Authorization", "Bearer "+customer)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := httputil.DumpResponse(answer, true)
	fmt.Printf("%s\n%s\n%v\n", customer, text, err)
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

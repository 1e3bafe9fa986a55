package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
)

// start returns a client on two in-process nodes.
func start() (client *shardlimit.Client, ctx context.Context, stop func()) {
	servers := must(embedded.Start(2))
	client = connect(servers.Nodes())
	return client, context.Background(), func() {
		client.Close()
		servers.Close()
	}
}

// connect returns a client with the patience of a test, which programs leave out.
func connect(nodes []shardlimit.Node) *shardlimit.Client {
	return must(shardlimit.New(shardlimit.Config{Nodes: nodes, CallTimeout: time.Minute}))
}

// must returns what a call returned that must not fail.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleNew() {
	client := must(shardlimit.New(shardlimit.Config{
		Nodes: []shardlimit.Node{
			{Name: "a", Redis: rueidis.ClientOption{InitAddress: []string{"10.0.0.1:6379"}}},
			{Name: "b", Redis: rueidis.ClientOption{InitAddress: []string{"10.0.0.2:6379"}}},
		},
		OnOutage: shardlimit.FailLocal,
	}))
	defer client.Close()
	fmt.Println("connects on first use")
	// Output: connects on first use
}

func ExampleNew_invalid() {
	_, err := shardlimit.New(shardlimit.Config{})
	fmt.Println(errors.Is(err, shardlimit.ErrInvalidConfig))
	fmt.Println(err)
	// Output:
	// true
	// shardlimit: invalid config: Nodes is empty; list at least one Redis endpoint
}

func ExampleClient_Limiter() {
	client, _, stop := start()
	defer stop()
	limiter := must(client.Limiter(context.Background(), "reports", shardlimit.Limit{
		Permits: 1000,
		Per:     time.Minute,
		Shards:  4,
	}))
	fmt.Println(limiter.Name(), limiter.Limit())
	// Output: reports 1000 permits per 1m0s over 4 shards
}

func ExampleClient_Open() {
	client, _, stop := start()
	defer stop()
	_, err := client.Open(context.Background(), "nobody declared this")
	fmt.Println(errors.Is(err, shardlimit.ErrNotFound))
	// Output: true
}

func ExampleLimiter_Allow() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "logins", shardlimit.PerMinute(2))
	for range 3 {
		d := must(limiter.Allow(ctx))
		fmt.Println(d.Allowed, d.RetryAfter > 0)
	}
	// Output:
	// true false
	// true false
	// false true
}

func ExampleLimiter_AllowN() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "bytes", shardlimit.PerHour(100))
	first, _ := limiter.AllowN(ctx, 80)
	second, _ := limiter.AllowN(ctx, 30) // all or nothing: only 20 are left
	_, err := limiter.AllowN(ctx, 101)
	fmt.Println(first.Granted, second.Granted, errors.Is(err, shardlimit.ErrExceedsLimit))
	// Output: 80 0 true
}

func ExampleLimiter_AllowUpTo() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "rows", shardlimit.PerHour(100))
	first, _ := limiter.AllowUpTo(ctx, 80)
	second, _ := limiter.AllowUpTo(ctx, 80)
	fmt.Println(first.Granted, second.Granted)
	// Output: 80 20
}

func ExampleLimiter_Wait() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "pulls", shardlimit.Limit{Permits: 2, Per: 50 * time.Millisecond})
	began := time.Now()
	for range 3 {
		check(limiter.Wait(ctx))
	}
	fmt.Println(time.Since(began) >= 45*time.Millisecond) // the third had to wait for the first to leave the window
	// Output: true
}

func ExampleLimiter_WaitN() {
	client, _, stop := start()
	defer stop()
	limiter, _ := client.Limiter(context.Background(), "pages", shardlimit.PerHour(10))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(limiter.WaitN(ctx, 10))
	// The permits cannot come back within a minute, so this does not block.
	fmt.Println(errors.Is(limiter.WaitN(ctx, 1), shardlimit.ErrWaitTooLong))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_Reserve() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "imports", shardlimit.PerHour(100)))
	now := must(limiter.Reserve(ctx, 80))
	later := must(limiter.Reserve(ctx, 50))
	fmt.Println(now.Delay(), later.Delay().Round(10*time.Minute))
	check(later.Cancel(ctx)) // not worth the wait
	// Output: 0s 1h0m0s
}

// A gateway takes what it expects a request to cost, and a worker settles what it did cost.
func ExampleLimiter_Settle() {
	client, ctx, stop := start()
	defer stop()
	limit := shardlimit.Limit{Permits: 1000, Per: time.Hour, Algorithm: shardlimit.SlidingLog}
	tokens, _ := client.Limiter(ctx, "tokens", limit)
	d, _ := tokens.AllowN(ctx, 800) // the estimate
	text := must(d.MarshalText())   // goes to the worker with the request
	var handed shardlimit.Decision
	check(handed.UnmarshalText(text))
	fmt.Println(tokens.Settle(ctx, handed, 300)) // the rest comes back
	fmt.Println(errors.Is(tokens.Settle(ctx, d, 0), shardlimit.ErrSettled))
	state, _ := tokens.Peek(ctx)
	fmt.Println(state.Used, state.Remaining)
	// Output:
	// <nil>
	// true
	// 300 700
}

func ExampleLimiter_Peek() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "mails", shardlimit.Limit{Permits: 100, Per: time.Hour, Shards: 2})
	_, _ = limiter.AllowN(ctx, 60)
	state := must(limiter.Peek(ctx))
	fmt.Println(state.Used, "used,", state.Remaining, "free on", len(state.Shards), "shards")
	// Output:
	// 60 used, 40 free on 2 shards
}

func ExampleLimiter_SetLimit() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "jobs", shardlimit.PerHour(10))
	_, _ = limiter.AllowN(ctx, 4)
	check(limiter.SetLimit(ctx, shardlimit.PerHour(5)))
	state, _ := limiter.Peek(ctx)
	fmt.Println(state.Limit.Permits, "permits,", state.Used, "used")
	// Output: 5 permits, 4 used
}

func ExampleLimiter_Reset() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "tries", shardlimit.PerHour(1))
	_, _ = limiter.Allow(ctx)
	check(limiter.Reset(ctx))
	d, _ := limiter.Allow(ctx)
	fmt.Println(d.Allowed)
	// Output: true
}

func ExampleLimiter_Delete() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "old", shardlimit.PerHour(1))
	check(limiter.Delete(ctx))
	_, err := client.Open(ctx, "old")
	fmt.Println(errors.Is(err, shardlimit.ErrNotFound))
	// Output: true
}

func ExampleAll() {
	client, ctx, stop := start()
	defer stop()
	requests, _ := client.Limiter(ctx, "requests", shardlimit.PerMinute(2))
	tokens, _ := client.Limiter(ctx, "tokens", shardlimit.PerMinute(10_000))
	for _, estimate := range []int64{3000, 8000, 4000} {
		call := shardlimit.All(requests.N(1), tokens.N(estimate)) // as each call costs
		d := must(call.Allow(ctx))
		each := call.Each(d)
		fmt.Println(d.Allowed, each[0].Remaining, each[1].Remaining)
	}
	// Output:
	// true 1 7000
	// false 1 7000
	// true 0 3000
}

func ExampleLimiter_N() {
	client, ctx, stop := start()
	defer stop()
	hosts, _ := client.Family(ctx, "hosts", shardlimit.PerMinute(1))
	crawl, _ := client.Limiter(ctx, "crawl", shardlimit.PerMinute(100))
	for _, host := range []string{"a.example", "a.example", "b.example"} {
		d, err := shardlimit.All(hosts.Limiter(host).N(1), crawl.N(1)).Allow(ctx)
		fmt.Println(host, d.Allowed, err)
	}
	// Output:
	// a.example true <nil>
	// a.example false <nil>
	// b.example true <nil>
}

func ExampleSet_Settle() {
	client, ctx, stop := start()
	defer stop()
	requests, _ := client.Limiter(ctx, "requests", shardlimit.PerHour(100))
	tokens, _ := client.Limiter(ctx, "tokens", shardlimit.PerHour(10_000))
	call := shardlimit.All(requests.N(1), tokens.N(3000))
	d, _ := call.Allow(ctx)
	_ = call.Settle(ctx, d, 1, 1200) // as many requests and tokens as it used
	state, _ := tokens.Peek(ctx)
	fmt.Println(state.Used)
	// Output: 1200
}

func ExampleClient_Limiter_perParticipant() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "disk",
		shardlimit.Limit{Permits: 50, Per: time.Second, Scope: shardlimit.PerParticipant})
	d, _ := limiter.Allow(ctx) // decided in this process
	fmt.Println(d.Allowed, limiter.Limit())
	// Output: true 50 permits per 1s for each participant
}

func ExampleClient_Family() {
	client, ctx, stop := start()
	defer stop()
	users := must(client.Family(ctx, "users", shardlimit.PerMinute(1)))
	for _, user := range []string{"ann", "bob", "ann"} {
		d, _ := users.Limiter(user).Allow(ctx)
		fmt.Println(user, d.Allowed)
	}
	// Output:
	// ann true
	// bob true
	// ann false
}

func ExampleClient_OpenFamily() {
	client, ctx, stop := start()
	defer stop()
	_, err := client.OpenFamily(ctx, "users")
	fmt.Println(errors.Is(err, shardlimit.ErrNotFound))
	_, _ = client.Family(ctx, "users", shardlimit.PerMinute(60))
	users, _ := client.OpenFamily(ctx, "users")
	fmt.Println(users.Limit())
	// Output:
	// true
	// 60 permits per 1m0s on 1 shard
}

func ExampleFamily_SetLimit() {
	client, ctx, stop := start()
	defer stop()
	users, _ := client.Family(ctx, "users", shardlimit.PerMinute(1))
	_, _ = users.Limiter("ann").Allow(ctx)
	check(users.SetLimit(ctx, shardlimit.PerMinute(2)))
	d, _ := users.Limiter("ann").Allow(ctx)
	fmt.Println(d.Allowed, users.Limit())
	// Output: true 2 permits per 1m0s on 1 shard
}

func ExamplePerDay() {
	fmt.Println(shardlimit.PerDay(1000))
	// Output: 1000 permits per 24h0m0s
}

func ExampleParseNodes() {
	nodes := must(shardlimit.ParseNodes("a=redis-a:6379,b=rediss://user:password@redis-b:6380"))
	for _, n := range nodes {
		fmt.Println(n.Name, n.Redis.InitAddress[0], n.Redis.TLSConfig != nil)
	}
	// Output:
	// a redis-a:6379 false
	// b redis-b:6380 true
}

func ExampleFamily_LimiterWith() {
	client, ctx, stop := start()
	defer stop()
	users, _ := client.Family(ctx, "users", shardlimit.PerMinute(60))
	// From a database: what the customer's plan says, and when that was changed last.
	plan := shardlimit.PerMinute(600)
	plan.Revision = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	d := must(users.LimiterWith("ann", plan).AllowN(ctx, 100))
	fmt.Println(d.Allowed, d.Remaining, "of", d.Limit)

	// A caller that knows an older plan changes nothing.
	older := shardlimit.PerMinute(60)
	d, _ = users.LimiterWith("ann", older).AllowN(ctx, 1)
	fmt.Println(d.Allowed, d.Remaining, "of", d.Limit)
	// Output:
	// true 500 of 600
	// true 499 of 600
}

func ExampleLimiter_Participants() {
	client, ctx, stop := start()
	defer stop()
	limiter, _ := client.Limiter(ctx, "exports", shardlimit.Limit{Permits: 10, Per: time.Hour, Shards: 1})
	ann := limiter.As("ann", 2)
	_, _ = ann.AllowN(ctx, 6)
	list, _ := limiter.Participants(ctx)
	fmt.Println(len(list), "contend")
	for _, n := range []int64{6, 1, 1} { // the first is refused
		_, _ = ann.AllowN(ctx, n)
	}
	names := map[string]string{"": "newcomers", shardlimit.ParticipantID("ann"): "ann"}
	list, _ = limiter.Participants(ctx)
	for _, p := range list {
		fmt.Println(names[p.ID], "of weight", p.Weight, "used", p.Used)
	}
	// Output:
	// 0 contend
	// newcomers of weight 2 used 1
	// ann of weight 2 used 1
}

// A customer asks why he was refused.
func ExampleReason() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "tokens", shardlimit.PerHour(100)))
	d := must(limiter.AllowN(ctx, 90)) // what the request may cost
	check(limiter.Settle(ctx, d, 130)) // what it did cost
	d, err := limiter.Allow(ctx)
	fmt.Println(d.Allowed, d.Limiter(), d.Reason, d.Reason == shardlimit.ReasonOwes, err)
	// Output: false tokens owes true <nil>
}

// Who is refused, and why, goes into a log.
func ExampleClient_OnRefusal() {
	client, ctx, stop := start()
	defer stop()
	client.OnRefusal(func(_ context.Context, r shardlimit.Refusal) {
		fmt.Println(r.Limiter, r.Key, "refused", r.Permits, "because it is", r.Decision.Reason)
	})
	users := must(client.Family(ctx, "users", shardlimit.PerHour(1)))
	for range 2 {
		d, err := users.Limiter("ann").Allow(ctx)
		fmt.Println(d.Allowed, err)
	}
	// Output:
	// true <nil>
	// users ann refused 1 because it is full
	// false <nil>
}

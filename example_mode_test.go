package shardlimit_test

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A limit is tried on real traffic before it is enforced, and stops everything in an emergency.
func ExampleMode() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "orders", shardlimit.Limit{Permits: 1, Per: time.Hour, Shards: 1,
		Mode: shardlimit.Shadow}))
	limit := limiter.Limit()
	for _, limit.Mode = range []shardlimit.Mode{shardlimit.Shadow, shardlimit.Off, shardlimit.Closed,
		shardlimit.Enforced} {
		check(limiter.SetLimit(ctx, limit))
		d, err := limiter.AllowUpTo(ctx, 3)
		fmt.Println(d.Mode(), "granted", d.Granted, "shadowed", d.Shadowed, err)
	}
	// Output:
	// shadow granted 3 shadowed true <nil>
	// off granted 3 shadowed false <nil>
	// closed granted 0 shadowed false <nil>
	// enforced granted 0 shadowed false <nil>
}

// One customer is blocked, another one exempt from the limit of all.
func ExampleMode_family() {
	client, ctx, stop := start()
	defer stop()
	perMinute := shardlimit.PerMinute(100)
	family := must(client.Family(ctx, "customers", perMinute))
	modes := map[string]shardlimit.Mode{"mallory": shardlimit.Closed, "ann": shardlimit.Off} // from a database
	for _, customer := range []string{"ann", "bob", "mallory"} {
		limit := perMinute
		limit.Mode = modes[customer]
		d, err := family.LimiterWith(customer, limit).AllowUpTo(ctx, 1_000)
		fmt.Println(customer, d.Granted, err)
	}
	// Output:
	// ann 1000 <nil>
	// bob 100 <nil>
	// mallory 0 <nil>
}

func ExampleReservation_Shadowed() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "reports", shardlimit.Limit{Permits: 1, Per: time.Hour, Shards: 1,
		Mode: shardlimit.Shadow}))
	for range 2 {
		r := must(limiter.Reserve(ctx, 1))
		fmt.Println("in", r.Delay(), "shadowed", r.Shadowed())
	}
	// Output:
	// in 0s shadowed false
	// in 0s shadowed true
}

func ExampleSet_Each() {
	client, ctx, stop := start()
	defer stop()
	second := must(client.Limiter(ctx, "per minute", shardlimit.PerMinute(2)))
	day := must(client.Limiter(ctx, "per day", shardlimit.PerDay(50)))
	both := shardlimit.All(second.N(2), day.N(2))
	for range 2 {
		d := must(both.Allow(ctx))
		for i, said := range both.Each(d) {
			fmt.Println("limit", i, "has room:", said.Allowed, "left:", said.Remaining)
		}
	}
	// Output:
	// limit 0 has room: true left: 0
	// limit 1 has room: true left: 48
	// limit 0 has room: false left: 0
	// limit 1 has room: true left: 48
}

// A service that has just started gets its full rate in steps.
func ExampleLimiter_SetLimit_warmUp() {
	client, ctx, stop := start()
	defer stop()
	full := shardlimit.PerMinute(1000)
	limiter := must(client.Limiter(ctx, "cold", full))
	for _, percent := range []int64{25, 50, 100} {
		step := full
		step.Permits = full.Permits * percent / 100
		check(limiter.SetLimit(ctx, step))
		d, err := limiter.AllowUpTo(ctx, full.Permits)
		fmt.Println(limiter.Limit().Permits, "a minute,", d.Granted, "of them now", err)
		// time.Sleep(time.Minute)
	}
	// Output:
	// 250 a minute, 250 of them now <nil>
	// 500 a minute, 250 of them now <nil>
	// 1000 a minute, 500 of them now <nil>
}

// A bucket that nobody has used is full. Who sets it up takes out what shall be missing at first.
func ExampleLimit_tokenBucketThatBeginsWithLess() {
	client, ctx, stop := start()
	defer stop()
	bucket := must(client.Limiter(ctx, "mails", shardlimit.Limit{Permits: 1, Per: time.Hour, Burst: 500, Shards: 1,
		Algorithm: shardlimit.TokenBucket}))
	d, err := bucket.AllowUpTo(ctx, 400) // once, when it is declared
	fmt.Println("begins with", d.Remaining, err)
	// Output: begins with 100 <nil>
}

package shardlimit_test

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

func ExampleLimiter_As() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "exports", shardlimit.PerHour(100)))
	// While more is asked than there is, gold gets three times what free gets.
	gold, free := limiter.As("customer-17", 3), limiter.As("customer-42", 1)
	for _, l := range []*shardlimit.Limiter{gold, free} {
		d := must(l.Allow(ctx))
		fmt.Println(d.Allowed)
	}
	// Output:
	// true
	// true
}

func ExampleLimit_tokenBucket() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "search", shardlimit.Limit{
		Permits: 60, Per: time.Hour, Algorithm: shardlimit.TokenBucket, Burst: 10, Shards: 1,
	}))
	d, _ := limiter.AllowUpTo(ctx, 20)
	fmt.Println(d.Granted, "at once")
	d, _ = limiter.Allow(ctx)
	fmt.Println("the next in", d.RetryAfter.Round(time.Minute))
	// Output:
	// 10 at once
	// the next in 1m0s
}

func ExampleLimit_leakyBucket() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "printer", shardlimit.Limit{
		Permits: 60, Per: time.Hour, Algorithm: shardlimit.LeakyBucket, Shards: 1,
	}))
	for range 3 {
		d, _ := limiter.Allow(ctx)
		fmt.Println(d.Allowed, "in", d.Delay.Round(time.Minute)) // Wait would sleep that long
	}
	// Output:
	// true in 0s
	// true in 1m0s
	// true in 2m0s
}

// Redis knows participants by a hash of their names. To find somebody among those who contend,
// compare IDs.
func ExampleParticipantID() {
	id := shardlimit.ParticipantID("customer-17")
	fmt.Println(len(id), id == shardlimit.ParticipantID("customer-17"), id == shardlimit.ParticipantID("customer-42"))
	// Output: 16 true false
}

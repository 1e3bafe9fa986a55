package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A job that must keep to two limits waits until both have room.
func ExampleSet_Wait() {
	client, ctx, stop := start()
	defer stop()
	perHour := must(client.Limiter(ctx, "hourly", shardlimit.PerHour(2)))
	perDay := must(client.Limiter(ctx, "daily", shardlimit.Limit{Permits: 20, Per: 24 * time.Hour}))
	mails := shardlimit.All(perHour.N(1), perDay.N(1))
	for range 3 {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		err := mails.Wait(ctx)
		cancel()
		fmt.Println(err == nil, errors.Is(err, shardlimit.ErrWaitTooLong))
	}
	// Output:
	// true false
	// true false
	// false true
}

func ExampleReservation_Cancel() {
	client, ctx, stop := start()
	defer stop()
	limiter := must(client.Limiter(ctx, "calls", shardlimit.PerHour(10)))
	must(limiter.AllowN(ctx, 10))
	for range 2 { // what was cancelled makes room for who comes next
		later := must(limiter.Reserve(ctx, 10))
		fmt.Println("in", later.Delay().Round(time.Minute))
		check(later.Cancel(ctx))
	}
	// Output:
	// in 1h0m0s
	// in 1h0m0s
}

// A job that found its work done gives back what it waited for.
func ExampleLimiter_Acquire() {
	client, _, stop := start()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	limiter := must(client.Limiter(ctx, "renders", shardlimit.PerHour(10)))
	d := must(limiter.Acquire(ctx, 3)) // blocks until it is granted
	fmt.Println(d.Granted, d.Remaining)
	check(limiter.Settle(ctx, d, 0))
	d, err := limiter.Acquire(ctx, 1)
	fmt.Println(d.Granted, d.Remaining, err)
	// Output:
	// 3 7
	// 1 9 <nil>
}

func ExampleSet_Acquire() {
	client, ctx, stop := start()
	defer stop()
	perHour := must(client.Limiter(ctx, "hourly", shardlimit.PerHour(2)))
	perDay := must(client.Limiter(ctx, "daily", shardlimit.PerDay(20)))
	mails := shardlimit.All(perHour.N(2), perDay.N(2))
	d := must(mails.Acquire(ctx))
	fmt.Println(d.Granted, mails.Settle(ctx, d, 0, 0)) // nobody was there to read them
	state, err := perDay.Peek(ctx)
	fmt.Println(state.Used, err)
	// Output:
	// 4 <nil>
	// 0 <nil>
}

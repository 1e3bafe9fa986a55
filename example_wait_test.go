package shardlimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/shardlimit/shardlimit"
)

// A job that must keep to two limits waits until both have room.
func ExampleSet_Wait() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	perHour, err := client.Limiter(ctx, "hourly", shardlimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}
	perDay, err := client.Limiter(ctx, "daily", shardlimit.Limit{Permits: 20, Per: 24 * time.Hour})
	if err != nil {
		log.Fatal(err)
	}
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
	client, stop := start()
	defer stop()
	ctx := context.Background()
	limiter, err := client.Limiter(ctx, "calls", shardlimit.PerHour(10))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := limiter.AllowN(ctx, 10); err != nil {
		log.Fatal(err)
	}
	for range 2 { // what was cancelled makes room for who comes next
		later, err := limiter.Reserve(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("in", later.Delay().Round(time.Minute))
		if err := later.Cancel(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// in 1h0m0s
	// in 1h0m0s
}

// A job that found its work done gives back what it waited for.
func ExampleLimiter_Acquire() {
	client, stop := start()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	limiter, err := client.Limiter(ctx, "renders", shardlimit.PerHour(10))
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Acquire(ctx, 3) // blocks until it is granted
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Granted, d.Remaining)
	if err := limiter.Settle(ctx, d, 0); err != nil {
		log.Fatal(err)
	}
	d, err = limiter.Acquire(ctx, 1)
	fmt.Println(d.Granted, d.Remaining, err)
	// Output:
	// 3 7
	// 1 9 <nil>
}

func ExampleSet_Acquire() {
	client, stop := start()
	defer stop()
	ctx := context.Background()
	perHour, err := client.Limiter(ctx, "hourly", shardlimit.PerHour(2))
	if err != nil {
		log.Fatal(err)
	}
	perDay, err := client.Limiter(ctx, "daily", shardlimit.PerDay(20))
	if err != nil {
		log.Fatal(err)
	}
	mails := shardlimit.All(perHour.N(2), perDay.N(2))
	d, err := mails.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Granted, mails.Settle(ctx, d, 0, 0)) // nobody was there to read them
	state, err := perDay.Peek(ctx)
	fmt.Println(state.Used, err)
	// Output:
	// 4 <nil>
	// 0 <nil>
}

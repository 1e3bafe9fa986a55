package script_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/script"
)

func ExampleEndpoint_Take() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true,
		ForceSingleClient: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	endpoint := script.NewEndpoint(client)
	shard := script.ShardKeys("app:", "7", "checkout")
	proposal, err := script.Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Minute, Keep: time.Hour,
		Quarantine: true}.Proposal()
	if err != nil {
		log.Fatal(err)
	}
	groups := []script.Group{{Size: 1, Count: 4}, {Size: 5, Count: 2}}
	reply, err := endpoint.Take(context.Background(), shard, &script.TakeRequest{Proposal: proposal, Groups: groups})
	if err != nil {
		log.Fatal(err)
	}
	asks, _ := script.Distribute(nil, reply.Before, groups)
	fmt.Println(reply.Status, "granted", reply.Granted, "asks", asks, "free", reply.Free, "retry", reply.Retry)
	// Output: fresh granted 9 asks [4 1] free 1 retry 1m0s
}

func ExampleDistribute() {
	asks, permits := script.Distribute(nil, 10, []script.Group{{Size: 4, Count: 3}, {Size: 1, Count: 1}})
	fmt.Println(asks, permits)
	// Output: [2 1] 9
}

func ExampleNewTwin() {
	proposal, err := script.Terms{
		Epoch: 1, Target: 10, Floor: 10, Window: time.Second, Keep: time.Minute, Algorithm: script.AlgorithmTokenBucket,
	}.Proposal()
	if err != nil {
		log.Fatal(err)
	}
	shard, now := script.NewTwin(script.AlgorithmTokenBucket), int64(1_700_000_000_000_000)
	reply := shard.Take(now, &script.TakeRequest{Proposal: proposal, Groups: []script.Group{{Size: 1, Count: 12}}})
	fmt.Println(reply.Granted, "granted, the next in", reply.Retry)
	// Output: 10 granted, the next in 100ms
}

// Permits that turn out not to be needed are given back, and reserved ones have a delay.
func ExampleEndpoint_Settle() {
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.SetTime(time.Unix(1_700_000_000, 0))
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true,
		ForceSingleClient: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, endpoint, shard := context.Background(), script.NewEndpoint(client), script.ShardKeys("app:", "7", "checkout")
	proposal, err := script.Terms{Epoch: 1, Target: 10, Floor: 10, Window: time.Minute, Keep: time.Hour,
		Quarantine: true}.Proposal()
	if err != nil {
		log.Fatal(err)
	}
	taken, err := endpoint.Take(ctx, shard,
		&script.TakeRequest{Proposal: proposal, Groups: []script.Group{{Size: 10, Count: 1}}})
	if err != nil {
		log.Fatal(err)
	}
	booked, err := endpoint.Reserve(ctx, shard,
		&script.ReserveRequest{Proposal: proposal, Permits: 2, MaxDelay: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	back, err := endpoint.Settle(ctx, shard, script.SettleRequest{Back: 4, At: taken.RefundAt(9)})
	if err != nil {
		log.Fatal(err)
	}
	state, err := endpoint.Peek(ctx, shard)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("granted", taken.Granted, "and", booked.Granted, "in", booked.Delay)
	fmt.Println("given back", back.Back, "in use", state.Used)
	// Output:
	// granted 10 and 2 in 1m0s
	// given back 4 in use 8
}

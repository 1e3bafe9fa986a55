package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/grpclimit"
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

// exampleLimiter is of one limit of a client, and how to close that.
func exampleLimiter(limit shardlimit.Limit) (*shardlimit.Limiter, func()) {
	client, done := exampleClient()
	l := must(client.Limiter(context.Background(), "example", limit))
	return l, done
}

// handle has an interceptor answer a unary call as a server does.
func handle(ctx context.Context, limit *grpclimit.Interceptor, handler grpc.UnaryHandler) error {
	_, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/shop.Orders/Place"}, handler)
	return err
}

func served(context.Context, any) (any, error) { return "served", nil }

// A server that lets each API key make two calls a minute, and a client of it.
func Example() {
	client, done := exampleClient()
	defer done()
	keys := must(client.Family(context.Background(), "api-keys", shardlimit.PerMinute(2)))
	limit := grpclimit.New(grpclimit.PerKey(keys, grpclimit.Metadata("x-api-key")),
		grpclimit.Options{Policy: "per-key"})
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn := must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-api-key", "ann")
	for range 3 {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			switch d := detail.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("try again in", d.GetRetryDelay().AsDuration().Round(time.Minute))
			case *errdetails.QuotaFailure:
				fmt.Println("the policy is", d.GetViolations()[0].GetSubject())
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// try again in 1m0s
	// the policy is per-key
}

// A call that costs nothing passes without asking.
func ExampleNew() {
	l, done := exampleLimiter(shardlimit.PerMinute(1))
	defer done()
	limit := grpclimit.New(grpclimit.One(l), grpclimit.Options{
		Cost: func(_ context.Context, call grpclimit.Call) int64 {
			if call.Method == grpc_health_v1.Health_Check_FullMethodName {
				return 0
			}
			return 1
		},
	})
	fmt.Println(handle(context.Background(), limit, served))
	fmt.Println(status.Code(handle(context.Background(), limit, served)))
	// Output:
	// <nil>
	// ResourceExhausted
}

// One limit for all calls.
func ExampleOne() {
	limit := grpclimit.New(grpclimit.One(httplimit.All()), grpclimit.Options{})
	fmt.Println(handle(context.Background(), limit, served))
	// Output: <nil>
}

// Each method has a limit of its own.
func ExamplePerKey() {
	client, done := exampleClient()
	defer done()
	methods := must(client.Family(context.Background(), "methods", shardlimit.PerMinute(1)))
	limit := grpclimit.New(grpclimit.PerKey(methods, grpclimit.Method), grpclimit.Options{})
	for range 2 {
		fmt.Println(status.Code(handle(context.Background(), limit, served)))
	}
	// Output:
	// OK
	// ResourceExhausted
}

// A call passes two limits together; the answer names the one that refused it.
func ExampleLimiter() {
	client, done := exampleClient()
	defer done()
	var policies []httplimit.Policy
	for name, limit := range map[string]shardlimit.Limit{
		"minute": shardlimit.PerMinute(1), "hour": shardlimit.PerHour(30)} {
		l := must(client.Limiter(context.Background(), name, limit))
		policies = append(policies, httplimit.Policy{Name: name, Limiter: l})
	}
	limit := grpclimit.New(grpclimit.One(httplimit.All(policies...)), grpclimit.Options{})
	_ = handle(context.Background(), limit, served)
	err := handle(context.Background(), limit, served)
	if quota, ok := status.Convert(err).Details()[1].(*errdetails.QuotaFailure); ok {
		fmt.Println(quota.GetViolations()[0].GetSubject())
	}
	// Output: minute
}

// A handler tells what is left.
func ExampleDecisionOf() {
	l, done := exampleLimiter(shardlimit.PerMinute(10))
	defer done()
	limit := grpclimit.New(grpclimit.One(l), grpclimit.Options{})
	_ = handle(context.Background(), limit, func(ctx context.Context, _ any) (any, error) {
		d, ok := grpclimit.DecisionOf(ctx)
		fmt.Println(d.Remaining, ok)
		return nil, nil
	})
	// Output: 9 true
}

// An answer from the cache costs nothing.
func ExampleSettle() {
	l, done := exampleLimiter(shardlimit.PerMinute(1))
	defer done()
	limit := grpclimit.New(grpclimit.One(l), grpclimit.Options{})
	cached := func(ctx context.Context, _ any) (any, error) { return "cached", grpclimit.Settle(ctx, 0) }
	fmt.Println(handle(context.Background(), limit, cached))
	fmt.Println(handle(context.Background(), limit, cached))
	// Output:
	// <nil>
	// <nil>
}

// A fleet that shares its pauses; each call waits for a permit.
func ExampleClient() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()
	pauses := must(httplimit.SharedPauses(ctx, client, "pauses", 5*time.Minute))
	targets := must(client.Family(ctx, "targets", shardlimit.PerSecond(100)))
	calls := &grpclimit.Client{Pauses: pauses, Permits: grpclimit.WaitPerKey(targets, grpclimit.Target), Retries: 2}
	conn := must(grpc.NewClient("dns:///orders.example:443", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(calls.Unary), grpc.WithStreamInterceptor(calls.Stream)))
	defer conn.Close()
	fmt.Println(conn.Target())
	// Output: dns:///orders.example:443
}

// A call that cannot have its permit in time fails at once.
func ExampleClient_Unary() {
	l, done := exampleLimiter(shardlimit.PerHour(1))
	defer done()
	calls := &grpclimit.Client{Permits: func(context.Context, grpclimit.Call) grpclimit.Waiter { return l }}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
	for range 2 {
		err := calls.Unary(ctx, "/shop.Orders/Place", nil, nil, nil, invoke)
		fmt.Println(status.Code(err), errors.Is(err, shardlimit.ErrWaitTooLong))
	}
	// Output:
	// OK false
	// DeadlineExceeded true
}

// Calls wait for permits of the limit of what they call.
func ExampleWaitPerKey() {
	client, done := exampleClient()
	defer done()
	targets := must(client.Family(context.Background(), "targets", shardlimit.PerSecond(100)))
	permits := grpclimit.WaitPerKey(targets, grpclimit.Target)
	w := permits(context.Background(), grpclimit.Call{Target: "dns:///orders.example:443"})
	d, err := w.Acquire(context.Background(), 1)
	fmt.Println(d.Granted, err)
	// Output: 1 <nil>
}

// fromAddress is the context of a call, as a server has it.
func fromAddress(address string, pairs ...string) context.Context {
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))
	ctx := peer.NewContext(context.Background(), &peer.Peer{Addr: at})
	return metadata.NewIncomingContext(ctx, metadata.Pairs(pairs...))
}

func ExampleMetadata() {
	ctx := fromAddress("192.0.2.7:4711", "x-api-key", "ann")
	fmt.Println(grpclimit.Metadata("x-api-key")(ctx, grpclimit.Call{}))
	// Output: ann
}

func ExampleMethod() {
	fmt.Println(grpclimit.Method(context.Background(), grpclimit.Call{Method: "/shop.Orders/Place"}))
	// Output: /shop.Orders/Place
}

func ExampleTarget() {
	fmt.Println(grpclimit.Target(context.Background(), grpclimit.Call{Target: "dns:///Orders.example:443"}))
	// Output: dns:///orders.example:443
}

// Clients behind a proxy are told apart by what that says.
func ExampleAddress() {
	key := grpclimit.Address(httplimit.AddressOptions{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	ctx := fromAddress("10.0.0.1:4711", "x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.0.0.2") // the first was made up
	fmt.Println(key(ctx, grpclimit.Call{}))
	// Output: 192.0.2.7
}

// Addresses of IPv6 are told apart by the network, because a household has a whole one.
func ExamplePeerIP() {
	for _, address := range []string{"192.0.2.7:4711", "[2001:db8:1:2:3:4:5:6]:4711"} {
		fmt.Println(grpclimit.PeerIP(fromAddress(address), grpclimit.Call{}))
	}
	// Output:
	// 192.0.2.7
	// 2001:db8:1:2::/64
}

func ExampleJoin() {
	key := grpclimit.Join(grpclimit.Metadata("x-api-key"), grpclimit.Method)
	ctx := fromAddress("192.0.2.7:4711", "x-api-key", "ann")
	fmt.Println(key(ctx, grpclimit.Call{Method: "/shop.Orders/Place"}))
	// Output: 3:ann18:/shop.Orders/Place
}

func ExampleFirstOf() {
	key := grpclimit.FirstOf(grpclimit.Metadata("x-api-key"), grpclimit.PeerIP)
	fmt.Println(key(fromAddress("192.0.2.7:4711"), grpclimit.Call{}))
	// Output: 1:192.0.2.7
}

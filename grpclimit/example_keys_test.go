package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

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

func ExampleUser() {
	type subject struct{} // what an interceptor for authentication has put into the context
	user := grpclimit.User(func(ctx context.Context, _ grpclimit.Call) string {
		name, _ := ctx.Value(subject{}).(string)
		return name
	})
	fmt.Println(user(context.WithValue(context.Background(), subject{}, "ann"), grpclimit.Call{}))
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

package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// The program serves, and refuses an address that calls too often.
func TestTheProgramRuns(t *testing.T) {
	servers, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	program := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, "./internal/quickstart").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "REDIS="+servers.Addr(0), "LISTEN="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended by now
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	health, seen := grpc_health_v1.NewHealthClient(conn), map[codes.Code]int{}
	for end := time.Now().Add(time.Minute); seen[codes.OK] == 0 || seen[codes.ResourceExhausted] == 0; {
		_, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
		if seen[status.Code(err)]++; time.Now().After(end) {
			t.Fatalf("answers %v", seen)
		}
	}
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

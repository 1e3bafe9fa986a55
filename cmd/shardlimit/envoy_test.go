package main

import (
	"math"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What Envoy asked for is shown and reset by the values that it sent.
func TestKeysOfEnvoy(t *testing.T) {
	_, flags := started(t, 1)
	config := file(t, "d.yaml", "domain: d\ndescriptors:\n- key: user\n"+
		"  rate_limit: {unit: hour, requests_per_unit: 1}\n"+
		"  descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 3}}]\n")
	_, says := launchServe(t, append(flags, "--grpc", "127.0.0.1:0", "--config", config)...)
	conn := dialled(t, says.address("serving Envoy on "))
	user := &ratelimit.RateLimitDescriptor_Entry{Key: "user", Value: "ann"}
	path := &ratelimit.RateLimitDescriptor_Entry{Key: "path", Value: "/a"}
	five := &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_HOUR}
	ask := &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{user}},
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{user, path}},
		{Entries: []*ratelimit.RateLimitDescriptor_Entry{path}, Limit: five}}}
	if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	walk(t, flags, []step{
		{"show envoy/d/user --key ann", exitOK, []string{"in use or reserved 1 of 1"}},
		{"show envoy/d/user/path --key ann/%2Fa", exitOK, []string{"in use or reserved 1 of 3"}},
		{"show envoy/override/hour --key d/path=%2Fa", exitOK, []string{"in use or reserved 1 of"}},
		{"reset envoy/d/user --key ann", exitOK, []string{"usage forgotten"}},
	})
}

// dialled is a connection without TLS.
func dialled(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const envoyConfig = "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n"

func TestServeEnvoy(t *testing.T) {
	config := file(t, "d.yaml", envoyConfig)
	write := func(content string) {
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd, says := launchServe(t, "--embedded", "--grpc", "127.0.0.1:0", "--config", config, "--response-headers",
		"--denied")
	address, url := says.address("serving Envoy on "), says.address("serving HTTP on ")
	conn := dialled(t, address)
	hits := uint64(1)
	ask := func(want rls.RateLimitResponse_Code) {
		t.Helper()
		a, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "d",
			Descriptors: []*ratelimit.RateLimitDescriptor{{HitsAddend: wrapperspb.UInt64(hits),
				Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}}}}})
		if err != nil || a.GetOverallCode() != want || len(a.GetResponseHeadersToAdd()) != 3 {
			t.Errorf("%v, %v", a, err)
		}
	}
	ask(rls.RateLimitResponse_OK)
	ask(rls.RateLimitResponse_OVER_LIMIT)
	write(strings.Replace(envoyConfig, ": 1", ": 2", 1))
	says.until("configuration in force")
	ask(rls.RateLimitResponse_OK)
	write(strings.Replace(envoyConfig, "user", "user, unlimited: x", 1))
	if line := says.until("the former one stays in force"); !strings.Contains(line, "d.yaml:3") {
		t.Error(line)
	}
	ask(rls.RateLimitResponse_OVER_LIMIT)
	hits = math.MaxUint64 // counters do not wrap
	ask(rls.RateLimitResponse_OVER_LIMIT)
	if _, text := fetch(t, url+"/metrics"); !strings.Contains(text, "ratelimit_service_over_limit") ||
		!strings.Contains(text, `result="error"`) || strings.Contains(text, "} -") {
		t.Errorf("/metrics: %.3000s", text)
	}
	api := grpc_health_v1.NewHealthClient(conn)
	health, err := api.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", health, err)
	}
	if _, text := fetch(t, url+"/v1/denied"); !strings.Contains(text,
		`{"limiter":"envoy/d/user","calls":2,"keys":[{"key":"ann","calls":2,"over":0}]}`) {
		t.Errorf("/v1/denied: %s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for says.in.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// Requests that are too large are refused.
func TestRequestsOfEnvoyAreBounded(t *testing.T) {
	server := grpc.NewServer(guard{}.grpc()...) // as serve makes it
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	api := grpc_health_v1.NewHealthClient(dialled(t, l.Addr().String()))
	for size, want := range map[int]codes.Code{maxMessage - 100: codes.NotFound,
		maxMessage + 100: codes.ResourceExhausted} {
		_, err := api.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", size)})
		if status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

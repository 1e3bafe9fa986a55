package main

import (
	"math"
	"os"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

func dialled(t *testing.T, address string, by credentials.TransportCredentials) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(by))
	limittest.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const envoyConfig = "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1},\n" +
	"  descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 3}}]}\n"

// The service answers Envoy by a configuration that may change. The tool tells, shows and resets a
// key by the values that Envoy sent. Requests that are too large are refused.
func TestServeEnvoy(t *testing.T) {
	config := file(t, "d.yaml", envoyConfig)
	write := func(content string) {
		limittest.Must(t, os.WriteFile(config, []byte(content), 0o600))
	}
	_, flags := started(t, 1)
	cmd, says := launchServe(t, append(flags, "--grpc", "127.0.0.1:0", "--config", config, "--response-headers",
		"--denied")...)
	address, url := says.address("serving Envoy on "), says.address("serving HTTP on ")
	conn := dialled(t, address, insecure.NewCredentials())
	user := &ratelimit.RateLimitDescriptor_Entry{Key: "user", Value: "ann"}
	path := &ratelimit.RateLimitDescriptor_Entry{Key: "path", Value: "/a"}
	asked := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{user}}
	ask := func(want rls.RateLimitResponse_Code) {
		t.Helper()
		a, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "d",
			Descriptors: []*ratelimit.RateLimitDescriptor{asked}})
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
	asked.HitsAddend = wrapperspb.UInt64(math.MaxUint64) // counters do not wrap
	ask(rls.RateLimitResponse_OVER_LIMIT)
	if _, text := fetch(t, url+"/metrics"); !strings.Contains(text, "ratelimit_service_over_limit") ||
		!strings.Contains(text, `result="error"`) || strings.Contains(text, "} -") {
		t.Errorf("/metrics: %.3000s", text)
	}
	health := grpc_health_v1.NewHealthClient(conn)
	for size, want := range map[int]codes.Code{0: codes.OK, maxMessage - 100: codes.NotFound,
		maxMessage + 100: codes.ResourceExhausted} { // the last is too large to be read
		a, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", size)})
		if status.Code(err) != want || err == nil && a.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health with %d bytes: %v, %v", size, a, err)
		}
	}
	if _, text := fetch(t, url+"/v1/denied"); !strings.Contains(text,
		`{"limiter":"envoy/d/user","key":"ann","calls":2,"over":0}`) {
		t.Errorf("/v1/denied: %s", text)
	}
	asked.Entries, asked.HitsAddend = append(asked.Entries, path), nil
	ask(rls.RateLimitResponse_OK)
	asked.Entries = asked.Entries[1:]
	asked.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: typev3.RateLimitUnit_HOUR}
	ask(rls.RateLimitResponse_OK)
	walk(t, flags, []step{
		{"show envoy/d/user --key ann", exitOK, []string{"in use or reserved 2 of 2"}},
		{"show envoy/d/user/path --key ann/%2Fa", exitOK, []string{"in use or reserved 1 of 3"}},
		{"show envoy/override/hour --key d/path=%2Fa", exitOK, []string{"in use or reserved 1 of"}},
		{"reset envoy/d/user --key ann", exitOK, []string{"usage forgotten"}},
	})
	limittest.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	for says.in.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

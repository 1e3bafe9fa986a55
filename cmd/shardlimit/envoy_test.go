package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const envoyConfig = "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n"

func TestServeEnvoy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.yaml")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(envoyConfig)
	cmd, says := launchServe(t, "--embedded", "--grpc", "127.0.0.1:0", "--config", file, "--response-headers")
	address, url := says.address("serving Envoy on "), says.address("serving HTTP on ")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ask := func(want rls.RateLimitResponse_Code) {
		t.Helper()
		a, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{Domain: "d",
			Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{
				{Key: "user", Value: "ann"}}}}})
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
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	says.until("the former one stays in force")
	if _, text := fetch(t, url+"/metrics"); !strings.Contains(text, "ratelimit_service_over_limit") ||
		!strings.Contains(text, `result="error"`) {
		t.Errorf("/metrics: %.3000s", text)
	}
	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", health, err)
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

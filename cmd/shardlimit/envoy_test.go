package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/shardlimit/shardlimit/internal/redistest"
)

// What Envoy asked for is shown and reset by the values that it sent.
func TestKeysOfEnvoy(t *testing.T) {
	flags := []string{"--prefix", redistest.Prefix(t), "--redis", redistest.Standalone(t).Addr()}
	file := filepath.Join(t.TempDir(), "d.yaml")
	const config = "domain: d\ndescriptors:\n- key: user\n  rate_limit: {unit: hour, requests_per_unit: 1}\n" +
		"  descriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 3}}]\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, says := launchServe(t, append(flags, "--grpc", "127.0.0.1:0", "--config", file)...)
	address := says.address("serving Envoy on ")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
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
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"show", "envoy/d/user", "--key", "ann"}, "in use or reserved 1 of 1"},
		{[]string{"show", "envoy/d/user/path", "--key", "ann/%2Fa"}, "in use or reserved 1 of 3"},
		{[]string{"show", "envoy/override/hour", "--key", "d/path=%2Fa"}, "in use or reserved 1 of"},
		{[]string{"reset", "envoy/d/user", "--key", "ann"}, "usage forgotten"},
	} {
		text, code := runHere(t, append(step.args, flags...)...)
		if code != exitOK || !strings.Contains(text, step.says) {
			t.Errorf("%v ended with %d: %s", step.args, code, text)
		}
	}
	text, code := runHere(t, append([]string{"reset", "envoy/d/user", "--key", "bob"}, flags...)...)
	if code != exitFailed {
		t.Errorf("a key that nobody used: %s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

const envoyConfig = "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: 1}}\n"

func TestServeEnvoy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d.yaml")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(envoyConfig)
	cmd, says := launchServe(t, "--embedded", "--grpc", "127.0.0.1:0", "--config", file, "--response-headers",
		"--denied")
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
	if _, text := fetch(t, url+"/v1/denied"); !strings.Contains(text,
		`{"limiter":"envoy/d/user","calls":2,"keys":[{"key":"ann","calls":2,"over":0}]}`) {
		t.Errorf("/v1/denied: %s", text)
	}
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv() // it is open when the signal comes
	}
	if err != nil {
		t.Fatal(err)
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

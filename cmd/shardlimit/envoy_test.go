package main

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// Frames of HTTP/2, and what a server tells with SETTINGS.
const (
	frameSettings                        = 4
	settingStreams, settingHeader uint16 = 3, 6
	preface                              = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// guarded is a server as serve makes it.
func guarded(t *testing.T) string {
	t.Helper()
	server := grpc.NewServer(guard{}.grpc()...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// frame reads on to a frame of that kind, and returns what it holds.
func frame(t *testing.T, from io.Reader, kind byte) []byte {
	t.Helper()
	for {
		var head [9]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			t.Fatalf("no frame of kind %d: %v", kind, err)
		}
		body := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(from, body); err != nil {
			t.Fatal(err)
		}
		if head[3] == kind {
			return body
		}
	}
}

// greet begins a connection and returns what the server says of itself.
func greet(t *testing.T, address string) map[uint16]uint32 {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	empty := []byte{0, 0, 0, frameSettings, 0, 0, 0, 0, 0}
	if _, err := conn.Write(append([]byte(preface), empty...)); err != nil {
		t.Fatal(err)
	}
	said := map[uint16]uint32{}
	for body := frame(t, conn, frameSettings); len(body) >= 6; body = body[6:] {
		said[binary.BigEndian.Uint16(body)] = binary.BigEndian.Uint32(body[2:])
	}
	return said
}

// A client learns how many calls it may have under way.
func TestConnectionsOfEnvoyAreBounded(t *testing.T) {
	said := greet(t, guarded(t))
	if said[settingStreams] != maxCalls || said[settingHeader] != maxHead {
		t.Errorf("the server says %v", said)
	}
}

func TestLargeRequestsOfEnvoyAreRefused(t *testing.T) {
	conn, err := grpc.NewClient(guarded(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for size, want := range map[int]codes.Code{maxMessage - 100: codes.NotFound,
		maxMessage + 100: codes.ResourceExhausted} {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("x", size)})
		if status.Code(err) != want {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

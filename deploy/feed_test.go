package deploy

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	registry "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// pause is between calls of a feed, so that it leaves the processor to others.
const pause = 50 * time.Millisecond

// feed calls something again and again until the test ends.
func feed(t *testing.T, call func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			call(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// builtTool is the tool, built once as CI has built it before.
var builtTool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(toolDir, "shardlimit")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	build.Dir, build.Env = "../cmd/shardlimit", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, nil
})

func buildTool(t *testing.T) string {
	t.Helper()
	path, err := builtTool()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const envoyConfig = "domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: second, requests_per_unit: 3}}\n"

// startServe runs serve, with calls over HTTP and of Envoy, and returns its address, and what has
// it refuse one configuration.
func startServe(t *testing.T) (address string, refuse func()) {
	t.Helper()
	rules := filepath.Join(t.TempDir(), "envoy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(envoyConfig)
	cmd := exec.Command(buildTool(t), "serve", "--embedded", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0",
		"--config", rules, "--limit", "mails=5/s", "--call-timeout", "5s")
	says, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(says)
	envoy := after(t, lines, "Envoy on ")
	address = after(t, lines, "serving HTTP on http://")
	go func() {
		for lines.Scan() { // so that it never waits for a reader
		}
	}()
	feed(t, func(ctx context.Context) { ask(ctx, "http://"+address) })
	feedEnvoy(t, envoy)
	return address, func() { write("domain: [") }
}

// after is what follows a text in the next line that has it.
func after(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	for lines.Scan() {
		if _, found, ok := strings.Cut(lines.Text(), text); ok {
			return found
		}
	}
	t.Fatalf("serve does not say %q", text)
	return ""
}

// ask asks serve for a permit.
func ask(ctx context.Context, url string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/allow",
		strings.NewReader(`{"limiter": "mails"}`))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	if answer, err := http.DefaultClient.Do(r); err == nil {
		_ = answer.Body.Close()
	}
}

func feedEnvoy(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	service := rls.NewRateLimitServiceClient(conn)
	feed(t, func(ctx context.Context) {
		_, _ = service.ShouldRateLimit(ctx, &rls.RateLimitRequest{Domain: "d",
			Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{
				{Key: "user", Value: "ann"}}}}})
	})
}

// measuring is a program that uses the library, with the exporter of OpenTelemetry.
type measuring struct {
	t      *testing.T
	meters *sdkmetric.MeterProvider
}

// startProgram runs a program on good days and bad ones, and returns the address of its metrics.
func startProgram(t *testing.T) string {
	t.Helper()
	own := registry.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(own))
	if err != nil {
		t.Fatal(err)
	}
	m := &measuring{t, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))}
	servers, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	m.goodDay()
	m.lostReplies(servers.Nodes()[0])
	gone := []shardlimit.Node{{Name: "gone", Redis: rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"},
		ForceSingleClient: true}}}
	for _, policy := range []shardlimit.OutagePolicy{shardlimit.FailClosed, shardlimit.FailOpen} {
		l := m.limiter(m.client(gone, time.Second, policy), "gone", shardlimit.PerSecond(5))
		feed(t, func(ctx context.Context) { _, _ = l.Allow(ctx) })
	}
	m.fleetClient(m.client(gone, time.Second, shardlimit.FailClosed))
	metrics := httptest.NewServer(promhttp.HandlerFor(own, promhttp.HandlerOpts{}))
	t.Cleanup(metrics.Close)
	return strings.TrimPrefix(metrics.URL, "http://")
}

func (m *measuring) client(nodes []shardlimit.Node, timeout time.Duration,
	policy shardlimit.OutagePolicy) *shardlimit.Client {
	m.t.Helper()
	c, err := shardlimit.New(shardlimit.Config{Nodes: nodes, CallTimeout: timeout, OnOutage: policy,
		NodeTimeout: shardlimit.DefaultNodeTimeout, MeterProvider: m.meters})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	return c
}

func (m *measuring) limiter(c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Limiter {
	m.t.Helper()
	l, err := c.Limiter(m.t.Context(), name, limit)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

// goodDay has calls granted and refused, and callers that wait, on three servers.
func (m *measuring) goodDay() {
	m.t.Helper()
	var nodes []shardlimit.Node
	for i, s := range redistest.Servers(m.t, 3) {
		nodes = append(nodes, shardlimit.Node{Name: string(rune('a' + i)), Redis: s.ClientOption()})
	}
	c := m.client(nodes, 5*time.Second, shardlimit.FailClosed)
	steady := m.limiter(c, "steady", shardlimit.PerSecond(20))
	feed(m.t, func(ctx context.Context) { _, _ = steady.Allow(ctx) })
	waited := m.limiter(c, "waited", shardlimit.PerSecond(10))
	for range 2 {
		feed(m.t, func(ctx context.Context) { _ = waited.Wait(ctx) })
	}
}

// lostReplies has one call of two spend permits for nobody.
func (m *measuring) lostReplies(n shardlimit.Node) {
	m.t.Helper()
	proxy := redistest.NewProxy(m.t, n.Redis.InitAddress[0])
	n.Redis.InitAddress = []string{proxy.Addr()}
	l := m.limiter(m.client([]shardlimit.Node{n}, 100*time.Millisecond, shardlimit.FailClosed), "lost",
		shardlimit.PerSecond(1000))
	feed(m.t, func(ctx context.Context) {
		_, _ = l.Allow(ctx)
		proxy.DropReplies(true)
		_, _ = l.Allow(ctx)
		proxy.DropReplies(false)
	})
}

// fleetClient has a server ask for pauses of which the fleet cannot know.
func (m *measuring) fleetClient(c *shardlimit.Client) {
	m.t.Helper()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	m.t.Cleanup(busy.Close)
	pauses, err := httplimit.SharedPauses(m.t.Context(), c, "pauses", 5*time.Millisecond)
	if err != nil {
		m.t.Fatal(err)
	}
	transport := &httplimit.Transport{Pauses: pauses, Retries: 1, MeterProvider: m.meters}
	own := &httplimit.Transport{Pauses: httplimit.NewPauses(time.Minute), Retries: 1, MeterProvider: m.meters}
	for _, client := range []http.Client{{Transport: transport}, {Transport: own}} {
		m.t.Cleanup(client.CloseIdleConnections)
		feed(m.t, func(ctx context.Context) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, busy.URL, nil)
			if err != nil {
				return
			}
			if answer, err := client.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
}

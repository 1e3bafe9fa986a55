package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// launchServe runs serve and returns what it says.
func launchServe(t *testing.T, args ...string) (*exec.Cmd, lines) {
	t.Helper()
	always := []string{"serve", "--listen", "127.0.0.1:0", "--call-timeout", "20s"}
	cmd := tool(t, append(always, args...)...)
	errs, err := cmd.StderrPipe()
	limittest.Must(t, err)
	limittest.Must(t, cmd.Start())
	t.Cleanup(func() { // or the tests may end before it does
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, lines{t, bufio.NewScanner(errs)}
}

// lines are those of standard error; until reads on to one with a text.
type lines struct {
	t  *testing.T
	in *bufio.Scanner
}

func (l lines) until(text string) string {
	l.t.Helper()
	for l.in.Scan() {
		if strings.Contains(l.in.Text(), text) {
			return l.in.Text()
		}
	}
	l.t.Fatalf("no line with %q", text)
	return ""
}

// address is what follows a text.
func (l lines) address(after string) string {
	l.t.Helper()
	_, address, _ := strings.Cut(l.until(after), after)
	return address
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	return request(t, http.MethodPost, url+"/v1/allow", body)
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	return request(t, http.MethodGet, url, "")
}

func request(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	limittest.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	limittest.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	limittest.Must(t, err)
	return answer.StatusCode, string(text)
}

// Limits of the command line and of a file are served, and the command line comes before the file.
// Metrics tell of limits and not of keys. An interrupt ends it well.
func TestServe(t *testing.T) {
	settings := file(t, "serve.yaml", "redis: [127.0.0.1:1, 127.0.0.1:2]\nlisten: nowhere\nlimit: [a=5/h, b=6/h]\n"+
		"limits: [{name: users, rate: 1/h, per_key: true}]\n")
	cmd, says := launchServe(t, "--settings", settings, "--embedded", "--on-outage", "open", "--per-key", "a=b=7/h")
	url := says.address("serving HTTP on ")
	for i, step := range []struct {
		body string
		code int
		says string
	}{
		{`{"limiter": "a"}`, 200, `"allowed":true,"granted":1,"limit":5,"remaining":4`},
		{`{"limiter": "b", "n": 6}`, 200, `"limit":6,"remaining":0`},
		{`{"limiter": "b"}`, 429, `"allowed":false`},
		{`{"limiter": "a=b", "key": "k"}`, 200, `"limit":7`},
		{`{"limiter": "users", "key": "ann"}`, 200, `"limit":1`},
		{`{"limiter": "users", "key": "ann"}`, 429, `"retry_after_us":3`},
		{`{"limiter": "users", "key": "bob"}`, 200, `"allowed":true`},
	} {
		if code, text := post(t, url, step.body); code != step.code || !strings.Contains(text, step.says) {
			t.Errorf("step %d: %d %s", i, code, text)
		}
	}
	code, text := fetch(t, url+"/metrics")
	for _, s := range []string{`ratelimit_decisions`, `limiter="b"`, `outcome="denied"`, `ratelimit_shard_remaining`} {
		if code != 200 || !strings.Contains(text, s) {
			t.Errorf("/metrics: %d, no %s in %.2000s", code, s, text)
		}
	}
	if strings.Contains(text, "ann") || strings.Contains(text, "bob") {
		t.Error("a key has become a label")
	}
	limittest.Must(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// An address that is taken is found out before anything is stored.
func TestServeBindsFirst(t *testing.T) {
	_, flags := started(t, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	defer func() { _ = listener.Close() }()
	taken := listener.Addr().String()
	const serve = "serve --limit mails=5/s --listen "
	inUse := []string{"address already in use"}
	walk(t, flags, []step{
		{serve + taken, exitFailed, inUse},
		{serve + "127.0.0.1:0 --config " + file(t, "d.yaml", envoyConfig) + " --grpc " + taken, exitFailed, inUse},
		{"show", exitOK, []string{"no limits are stored under the prefix"}},
		{"show --json", exitOK, nil},
	})
}

// The rules of a large configuration for Envoy keep series of their own, more than the metrics
// library keeps of itself.
func TestManySeriesAreTold(t *testing.T) {
	meters, metrics, err := newMeters()
	limittest.Must(t, err)
	c, err := meters.Meter("m").Int64Counter("hits")
	limittest.Must(t, err)
	const many = 10_000
	for i := range many {
		c.Add(t.Context(), 1, metric.WithAttributes(attribute.String("descriptor", fmt.Sprint("d", i))))
	}
	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if n := strings.Count(w.Body.String(), `descriptor="d`); n != many {
		t.Errorf("%d series of %d", n, many)
	}
}

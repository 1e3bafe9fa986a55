package deploy

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A real Envoy with envoy/envoy.yaml, before a service and beside shardlimit serve, refuses what
// envoy/limits.yaml has too much, and nothing else. While the service is away requests pass.
func TestEnvoyAsksForItsLimits(t *testing.T) {
	t.Parallel()
	envoy, err := exec.LookPath("envoy") // .ci/run installs it
	switch {
	case err != nil && runtime.GOARCH != "amd64":
		t.Log("CI has no Envoy for this processor")
		return
	case err != nil:
		t.Skip(err)
	}
	shop := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer shop.Close()
	limits, end := started(t, exec.Command(tool, "serve", "--embedded", "--listen", "127.0.0.1:0", "--grpc",
		"127.0.0.1:0", "--config", "envoy/limits.yaml", "--call-timeout", "20s"), "Envoy on ")
	front := freeAddress(t)
	// The machine may be busy: an answer is waited for.
	text := strings.Replace(string(content(t, "envoy/envoy.yaml")), "timeout: 0.2s", "timeout: 20s", 1)
	for port, address := range map[string]string{"10000": front, "8081": limits,
		"9000": shop.Listener.Addr().String()} {
		_, is, err := net.SplitHostPort(address)
		if err != nil || strings.Count(text, "port_value: "+port+"}") != 1 {
			t.Fatalf("%s: %v", port, err)
		}
		text = strings.Replace(text, "port_value: "+port+"}", "port_value: "+is+"}", 1)
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	limittest.Must(t, os.WriteFile(file, []byte(text), 0o600))
	proxy := exec.Command(envoy, "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	limittest.Must(t, err)
	proxy.Stdout, proxy.Stderr = log, log
	limittest.Must(t, proxy.Start())
	defer func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
		if t.Failed() {
			t.Logf("%s", content(t, log.Name()))
		}
		_ = log.Close()
	}()
	ask := func(from int, path, user string) (status int, left string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+front+path, nil)
		limittest.Must(t, err)
		request.Close = true
		if user != "" {
			request.Header.Set("X-User", user)
		}
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(from/250), byte(1+from%250))}}
		answer, err := (&http.Transport{DialContext: dialer.DialContext}).RoundTrip(request)
		if err != nil {
			return 0, ""
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return answer.StatusCode, answer.Header.Get("X-RateLimit-Remaining")
	}
	first := 400
	limittest.AwaitThat(t, "an answer with a limit", func() bool {
		first++ // an address that is asked for again and again has less left
		status, left := ask(first, "/", "")
		return status == http.StatusOK && left == "9"
	})
	// Of a user 100 orders pass, from whatever addresses, and others have their own.
	for i := range 102 {
		status, left := ask(1+i, "/orders/"+strconv.Itoa(i), "ann")
		if i < 100 && status != http.StatusOK || i >= 100 && (status != http.StatusTooManyRequests || left != "0") {
			t.Errorf("order %d: %d, %s left", i, status, left)
		}
	}
	for i, other := range [][2]string{{"/orders/1", "bob"}, {"/", "ann"}, {"/orders/1", ""}} {
		if status, left := ask(200+i, other[0], other[1]); status != http.StatusOK || left != "9" {
			t.Errorf("%v: %d, %s left", other, status, left)
		}
	}
	limittest.AwaitThat(t, "an address that asks too often", func() bool {
		var refused atomic.Bool
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if status, _ := ask(300, "/", ""); status == http.StatusTooManyRequests {
					refused.Store(true)
				}
			})
		}
		all.Wait()
		return refused.Load()
	})
	end()
	if status, left := ask(301, "/orders/1", "ann"); status != http.StatusOK || left != "" {
		t.Errorf("without the service: %d, %s left", status, left)
	}
}

// The page shows the limits, and which descriptors Envoy makes.
func TestThePageShowsEnvoysFiles(t *testing.T) {
	page := string(content(t, "../docs/howto/envoy.md"))
	if !strings.Contains(page, "```yaml\n"+string(content(t, "envoy/limits.yaml"))+"```\n") {
		t.Error("envoy/limits.yaml is another one")
	}
	_, shown, _ := strings.Cut(page, "```\nrate_limits:")
	shown, _, _ = strings.Cut("rate_limits:"+shown, "```")
	indented := regexp.MustCompile(`(?m)^`).ReplaceAllString(strings.TrimSuffix(shown, "\n"), strings.Repeat(" ", 22))
	if !strings.Contains(string(content(t, "envoy/envoy.yaml")), indented+"\n") {
		t.Errorf("envoy/envoy.yaml does not have\n%s", indented)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

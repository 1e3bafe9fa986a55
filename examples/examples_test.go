package examples

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// pages says which page shows a program.
var pages = map[string]string{
	"quickstart": "docs/getting-started.md", "servers": "docs/getting-started.md", "worker": "README.md",
	"gateway": "README.md", "fleet": "docs/howto/http-gateway.md",
}

// A page shows the whole program without its first comment, or its function main, which has at most
// 25 lines. That whatever pages show stands in a file is for TestCodeInPagesCompiles of the root.
func TestPagesShowThePrograms(t *testing.T) {
	for program, page := range pages {
		text, err := os.ReadFile(filepath.Join(program, "main.go"))
		limittest.Must(t, err)
		_, whole, _ := strings.Cut(string(text), "\n")
		_, main, _ := strings.Cut(whole, "func main() {\n")
		main, _, _ = strings.Cut(main, "\n}\n")
		main = "func main() {\n" + main + "\n}\n"
		document, err := os.ReadFile(filepath.Join("..", page))
		limittest.Must(t, err)
		if !strings.Contains(string(document), "```go\n"+whole+"```\n") &&
			!strings.Contains(string(document), "```go\n"+main+"```\n") {
			t.Errorf("%s does not show examples/%s/main.go", page, program)
		}
		if program != "quickstart" && !strings.Contains(main, "Logger: slog.Default()") {
			t.Errorf("%s is silent while its nodes are away", program)
		}
		if n := strings.Count(main, "\n"); n > 25 {
			t.Errorf("main of %s has %d lines", program, n)
		}
	}
}

// programs are the built ones, by name.
var programs = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "examples")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", folder+"/", "./...").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return folder, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, err := programs(); err == nil && folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// command is a program that can be started.
func command(ctx context.Context, t *testing.T, program string, env ...string) *exec.Cmd {
	t.Helper()
	folder, err := programs()
	limittest.Must(t, err)
	cmd := exec.CommandContext(ctx, filepath.Join(folder, program))
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// run starts a program. What it returns ends it by an interrupt, and says what it wrote; else the
// end of the test kills it.
func run(t *testing.T, program string, env ...string) (interrupt func() string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no interrupts to send")
	}
	var out bytes.Buffer
	cmd := command(t.Context(), t, program, env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	limittest.Must(t, cmd.Start())
	wait := sync.OnceValue(cmd.Wait)
	t.Cleanup(func() { _ = wait() }) // the context of the test has ended by now
	return func() string {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := wait(); err != nil {
			t.Errorf("%s: %v: %s", program, err, &out)
		}
		return out.String()
	}
}

func start(t *testing.T) (*embedded.Servers, string) {
	t.Helper()
	servers, err := embedded.Start(2)
	limittest.Must(t, err)
	t.Cleanup(servers.Close)
	return servers, "REDIS=" + servers.Addr(0) + "," + servers.Addr(1)
}

// The page to begin with shows what the quick start prints.
func TestQuickStart(t *testing.T) {
	document, err := os.ReadFile("../docs/getting-started.md")
	limittest.Must(t, err)
	out := finish(t, "quickstart")
	if strings.Count(out, "true ") != 2 || !strings.Contains(string(document), "```text\n"+out+"```\n") {
		t.Errorf("getting-started.md does not show what the quick start prints:\n%s", out)
	}
}

func TestWorkerPullsUntilItIsInterrupted(t *testing.T) {
	servers, redis := start(t)
	interrupt := run(t, "worker", redis)
	nodes, err := shardlimit.ParseNodes(strings.TrimPrefix(redis, "REDIS="))
	limittest.Must(t, err)
	client, err := shardlimit.New(shardlimit.Config{Nodes: nodes, CallTimeout: time.Minute})
	limittest.Must(t, err)
	defer client.Close()
	limittest.AwaitThat(t, "permits in use", func() bool {
		pulls, err := client.Open(t.Context(), "pulls")
		if err != nil {
			return false
		}
		state, err := pulls.Peek(t.Context())
		return err == nil && state.Used > 0 && state.Limit.Permits == 2000
	})
	servers.Close() // an outage: it waits, and can be interrupted
	if out := interrupt(); !strings.Contains(out, "stopped: interrupt") {
		t.Errorf("it says %q", out)
	}
}

// While nodes answer a request says what is left of 600 a minute. In an outage a gateway of twenty
// lets 30 pass.
func TestGatewayKeepsItsPartInAnOutage(t *testing.T) {
	servers, redis := start(t)
	address := free(t)
	run(t, "gateway", redis, "LISTEN="+address)
	limittest.AwaitThat(t, "an answer that knows the limit", func() bool {
		status, policy := order(t, address, "ann")
		return status == http.StatusAccepted && policy == `"key";q=600;w=60`
	})
	servers.Close()
	passed := 0
	limittest.AwaitThat(t, "a refusal in the outage", func() bool {
		status, _ := order(t, address, "bob")
		if status == http.StatusAccepted {
			passed++
		}
		return status == http.StatusTooManyRequests
	})
	if passed != 30 {
		t.Errorf("%d requests of a key passed in an outage, want a twentieth of 600", passed)
	}
}

// Who makes up a key for each request is held by the limit of its address.
func TestGatewayRefusesWhoMakesUpKeys(t *testing.T) {
	_, redis := start(t)
	address := free(t)
	run(t, "gateway", redis, "LISTEN="+address)
	limittest.AwaitThat(t, "an answer", func() bool {
		status, _ := order(t, address, "ann")
		return status == http.StatusAccepted
	})
	for i := range 1500 {
		if status, _ := order(t, address, fmt.Sprint("made up ", i)); status == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("1,500 requests with a key each have passed")
}

// order calls the gateway, and returns what it answered; 0 if it does not listen.
func order(t *testing.T, address, key string) (status int, policy string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/orders", nil)
	limittest.Must(t, err)
	request.Header.Set("X-API-Key", key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode, answer.Header.Get("RateLimit-Policy")
}

// free is an address at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	limittest.Must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// A server that asks for a pause is not called again, and an interrupt ends the wait.
func TestFleetKeepsAPause(t *testing.T) {
	_, redis := start(t)
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 3 {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	interrupt := run(t, "fleet", redis, "URL="+server.URL)
	limittest.AwaitThat(t, "three calls", func() bool { return calls.Load() >= 3 })
	if out := interrupt(); calls.Load() != 3 || strings.Contains(out, "unavailable") {
		t.Errorf("%d calls, it says %q", calls.Load(), out)
	}
}

// finish runs a program to its end, which must be a success, and returns what it wrote.
func finish(t *testing.T, program string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := command(ctx, t, program, env...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v: %s", program, err, out)
	}
	return string(out)
}

// The proxy answers as OpenAI does, gives back what an estimate had too much, and says which limit
// refused.
func TestProxyCountsRequestsAndTokens(t *testing.T) {
	limittest.AwaitThat(t, "a machine that is quick enough for the call timeout", func() bool {
		_, redis := start(t)
		out := finish(t, "llmproxy", redis)
		if strings.Contains(out, "503 Service Unavailable") {
			return false
		}
		answers := strings.Split(out, "HTTP/1.1 ")[1:]
		if len(answers) != 63 {
			t.Fatalf("%d answers: %s", len(answers), out)
		}
		for i, want := range map[int][]string{
			0:  {"200 OK", "Limit-Requests: 60", "Remaining-Requests: 59", "Reset-Requests: ", "Limit-Tokens: 90000"},
			59: {"200 OK", "Remaining-Requests: 0", "Remaining-Tokens: 15196"}, // 59 are settled
			60: {"429 Too", "Retry-After: ", "Remaining-Requests: 0", "\r\n\r\nrequests: full"},
			61: {"200 OK", "Remaining-Requests: 59", "Remaining-Tokens: 996"}, // another customer
			62: {"429 Too", "Retry-After: ", "Remaining-Tokens: 88800", "\r\n\r\ntokens: full"},
		} {
			for _, text := range want {
				if !strings.Contains(answers[i], text) {
					t.Errorf("answer %d has no %q: %s", i, text, answers[i])
				}
			}
		}
		return true
	})
}

// The crawler reads every page, also that of the host which asks for a pause first.
func TestCrawlerReadsEveryHost(t *testing.T) {
	t.Parallel() // it waits for most of its time, as the next one does
	_, redis := start(t)
	out := finish(t, "crawler", redis)
	if !strings.Contains(out, "pages: 2000 in ") || !strings.Contains(out, "answers 429: 1\n") ||
		strings.Count(out, "nobody of the fleet calls it") != 1 {
		t.Error(out)
	}
}

// Two machines together run 40 downloads at once and no more, also those that take longer than a
// slot is held without Extend.
func TestSlotsHoldOverAllMachines(t *testing.T) {
	t.Parallel()
	_, redis := start(t)
	var mu sync.Mutex
	running, most := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			running += n
			most = max(most, running)
		}
		count(1)
		defer count(-1)
		select {
		case <-time.After(4 * time.Second):
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	var machines sync.WaitGroup
	for range 2 {
		machines.Go(func() {
			// Under load embedded nodes can be too slow for Extend, which ends a download.
			out := finish(t, "slots", redis, "URL="+server.URL)
			if !strings.Contains(out, "are done: 25\n") && !strings.Contains(out, "context deadline exceeded") {
				t.Error(out)
			}
		})
	}
	machines.Wait()
	if most > 40 || most < 20 {
		t.Errorf("%d downloads ran at once, at most 40 may, and under load a few less do", most)
	}
}

package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

func TestMain(m *testing.M) {
	ServeIfService()
	// The race detector waits a second when a process ends: much, for processes that live as long.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	m.Run()
}

// TestServicesLimitEachKey: every limiter has a limit for each key, in a process of its own, and
// leaves nothing.
func TestServicesLimitEachKey(t *testing.T) {
	redis := servertest.Start(t)
	for _, k := range append(Web(), EnvoyLimit) {
		t.Run(k.Name, func(t *testing.T) {
			p, err := k.Start(t.Context(), Job{Redis: redis.Addr(), Permits: 2, Per: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			callers, err := p.Dial(2)
			if err != nil {
				t.Fatal(err)
			}
			defer callers.Close()
			for i, key := range []string{"ann", "ann", "ann", "bob"} {
				want := k.Name != Refuse && (i != 2 || k.Name == None)
				ok, err := callers.Allow(t.Context(), i%2, k.Name+key)
				if err != nil || ok != want {
					t.Errorf("request %d, of %s: allowed %v, err %v; want %v", i, key, ok, err, want)
				}
			}
			if cpu, err := p.CPU(); err != nil || cpu < 0 {
				t.Errorf("CPU %v, %v", cpu, err)
			}
			p.Close()
			if _, err := os.Stat(p.folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

func TestAServiceThatDoesNotServeIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := EnvoyLimit.Start(ctx, Job{Redis: "127.0.0.1:1", Permits: -1})
	if err == nil || !strings.Contains(err.Error(), EnvoyLimit.Name) {
		t.Errorf("err %v, want one that names the service", err)
	}
}

func TestWhatTheOtherServiceIsGiven(t *testing.T) {
	folder := t.TempDir()
	j := Job{Redis: "127.0.0.1:1", Permits: 3, Per: time.Minute, Listen: "127.0.0.1:2"}
	cmd, err := EnvoyProxy("theirs", "program", 7).command(j, folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"REDIS_URL=127.0.0.1:1", "GRPC_PORT=2", "GRPC_HOST=127.0.0.1",
		"RUNTIME_ROOT=" + folder,
		"LOCAL_CACHE_SIZE_IN_BYTES=7"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("it is not told %s", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "rules", "config", "bench.yaml")); err != nil ||

		string(text) != j.config() || !strings.Contains(string(text), "unit: minute, requests_per_unit: 3") {
		t.Errorf("its configuration is %q, %v", text, err)
	}
}

// TestBuildThatCannotBeHad: without a proxy it is said to be missing; what was built is used.
func TestBuildThatCannotBeHad(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	folder := filepath.Join(t.TempDir(), "cache", "built")
	if _, err := buildInto(t.Context(), folder); !errors.Is(err, ErrMissing) {
		t.Errorf("err %v, want ErrMissing", err)
	}
	if left, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := os.MkdirAll(filepath.Join(folder, mainPackage), 0o755); err != nil {
		t.Fatal(err)
	}
	if program, err := buildInto(t.Context(), folder); err != nil || program != filepath.Join(folder, mainPackage) {
		t.Errorf("%q, %v; want what is there", program, err)
	}
}

func TestCPUOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stat")
	for text, want := range map[string]time.Duration{
		"7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 120 30 5 5 20 0": 1500 * time.Millisecond,
		"7 (a) S 1 7": -1,
		"7 (a) S 1 7 7 0 -1 0 0 0 0 0 x 30 5 5 20 0": -1,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := cpuOf(file); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	for text, want := range map[string]int{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\nHTTP":           200,
		"HTTP/1.1 429 Too Many\r\nA: b\r\nContent-Length: 0\r\n\r\nHTTP": 429,
		"HTTP/1.1 200 OK\r\n\r\nok\n":                                    0, // no length
		"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nok\n":              0, // too short
		"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nok\n":            0,
		"HTTP/1.1 200 OK\r\nContent-Le":                                  0,
		"what\r\n\r\n":                                                   0,
	} {
		in := bufio.NewReader(strings.NewReader(text))
		status, err := readAnswer(in)
		if (err == nil) != (want != 0) || err == nil && status != want {
			t.Errorf("%q: status %d, err %v; want %d", text, status, err, want)
		}
		if rest, _ := io.ReadAll(in); err == nil && string(rest) != "HTTP" {
			t.Errorf("%q: %q is left, want the next answer", text, rest)
		}
	}
}

// TestConnIsKept: requests share a connection, and one that is lost is replaced.
func TestConnIsKept(t *testing.T) {
	var opened, asked atomic.Int64
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.Header.Get(keyHeader) {
		case "teapot":
			w.WriteHeader(http.StatusTeapot)
		case "lost":
			panic(http.ErrAbortHandler)
		}
	}))
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	callers, err := dialWeb(web.Listener.Addr().String(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer callers.Close()
	for i, step := range []struct {
		key    string
		ok     bool
		opened int64
	}{{"ann", true, 1}, {"ann", true, 1}, {"teapot", false, 1}, {"ann", true, 1}, {"lost", false, 1},
		{"ann", true, 2}} {
		ok, err := callers.Allow(t.Context(), 0, step.key)
		if ok != step.ok || (err == nil) != step.ok || opened.Load() != step.opened || asked.Load() != int64(i)+1 {
			t.Errorf("request %d: allowed %v, err %v, %d connections, %d asked; want %+v", i, ok, err, opened.Load(),
				asked.Load(), step)
		}
	}
}

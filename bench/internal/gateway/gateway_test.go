package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

func TestMain(m *testing.M) {
	ServeIfServer()
	// The race detector waits a second when a process ends: much, for processes that live as long.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	m.Run()
}

func start(t *testing.T, j Job) *Process {
	t.Helper()
	p, err := Start(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestVariantsLimitEachKey: every limiter has a limit for each key, over HTTP and in a process of
// its own.
func TestVariantsLimitEachKey(t *testing.T) {
	addr := servertest.Start(t).Addr()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			p := start(t, Job{Variant: v.name, Redis: addr, Permits: 2, Per: time.Hour})
			conn := NewConn(p.Addr())
			defer conn.Close()
			for i, key := range []string{"ann", "ann", "ann", "bob"} {
				want := v.name != Refuse && (i != 2 || v.name == None)
				ok, err := conn.Allow(t.Context(), v.name+key)
				if err != nil || ok != want {
					t.Errorf("request %d, of %s: allowed %v, err %v; want %v", i, key, ok, err, want)
				}
			}
		})
	}
}

func TestCPUIsThatOfTheServer(t *testing.T) {
	p := start(t, Job{Variant: None})
	before, err := p.CPU()
	if err != nil {
		t.Fatal(err)
	}
	conn := NewConn(p.Addr())
	defer conn.Close()
	for range 3000 {
		if ok, err := conn.Allow(t.Context(), "ann"); !ok || err != nil {
			t.Fatalf("allowed %v, err %v", ok, err)
		}
	}
	after, err := p.CPU()
	if err != nil || after <= before {
		t.Errorf("%s of CPU before 3000 requests, %s after them, err %v", before, after, err)
	}
}

func TestAProcessThatCannotStartSaysWhy(t *testing.T) {
	if _, err := Start(t.Context(), Job{Variant: "nobody"}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("err %v, want one about the variant", err)
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
		switch r.Header.Get(KeyHeader) {
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
	conn := NewConn(web.Listener.Addr().String())
	defer conn.Close()
	for i, step := range []struct {
		key    string
		ok     bool
		opened int64
	}{{"ann", true, 1}, {"ann", true, 1}, {"teapot", false, 1}, {"ann", true, 1}, {"lost", false, 1},
		{"ann", true, 2}} {
		ok, err := conn.Allow(t.Context(), step.key)
		if ok != step.ok || (err == nil) != step.ok || opened.Load() != step.opened || asked.Load() != int64(i)+1 {
			t.Errorf("request %d: allowed %v, err %v, %d connections, %d asked; want %+v", i, ok, err, opened.Load(),
				asked.Load(), step)
		}
	}
}

func TestCounter(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: servertest.Start(t).Addr()})
	defer client.Close()
	c := &counter{client: client}
	c.Config(10, time.Minute)
	now := time.Now().Truncate(time.Minute)
	before := now.Add(-time.Minute)
	want := func(current, previous int) {
		t.Helper()
		a, b, err := c.Get("ann", now, before)
		if a != current || b != previous || err != nil {
			t.Errorf("counts %d and %d, err %v; want %d and %d", a, b, err, current, previous)
		}
	}
	want(0, 0)
	for _, err := range []error{c.Increment("ann", now), c.IncrementBy("ann", before, 4), c.Increment("ann", now),
		c.Increment("bob", now)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want(2, 4)
	ttl, err := client.PTTL(t.Context(), c.name("ann", now)).Result()
	if err != nil || ttl <= 2*time.Minute || ttl > 3*time.Minute {
		t.Errorf("a count is kept for %s, err %v; want three windows", ttl, err)
	}
	_ = client.Close()
	if _, _, err := c.Get("ann", now, before); err == nil {
		t.Error("a client that is closed read counts")
	}
	if err := c.Increment("ann", now); err == nil {
		t.Error("a client that is closed counted")
	}
}

package httplimit_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// A client that sleeps for Retry-After succeeds, and one that comes a second earlier does not.
func TestWhoSleepsRetryAfterUnderEachAlgorithm(t *testing.T) {
	for _, limit := range []shardlimit.Limit{
		{Permits: 3, Per: time.Minute}, {Permits: 40, Per: time.Minute, Shards: 4},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.SlidingCounter},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.FixedWindow},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: 3},
	} {
		inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
			h := httplimit.New(httplimit.One(declared(t, connect(), "l", limit)), httplimit.Options{})(ok)
			answer := get(h)
			for answer.Code == http.StatusOK {
				time.Sleep(100 * time.Millisecond)
				answer = get(h)
			}
			seconds, err := strconv.Atoi(answer.Header().Get("Retry-After"))
			if err != nil || seconds < 1 {
				t.Fatalf("%v: Retry-After is %q", limit, answer.Header().Get("Retry-After"))
			}
			time.Sleep(time.Duration(seconds-1) * time.Second)
			if early := get(h); early.Code != http.StatusTooManyRequests {
				t.Errorf("%v: a second early: %d", limit, early.Code)
			}
			time.Sleep(time.Second)
			if again := get(h); again.Code != http.StatusOK {
				t.Errorf("%v: after Retry-After: %d %v", limit, again.Code, again.Header())
			}
		})
	}
}

// Over a port: a refused request is made again on the same connection, with its body.
func TestARetryKeepsItsConnection(t *testing.T) {
	var asked, connections atomic.Int64
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "a body" {
			t.Errorf("the body is %q, %v", body, err)
		}
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, strings.Repeat("later ", 5000), http.StatusTooManyRequests)
		}
	}))
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	client := http.Client{Transport: &httplimit.Transport{Retries: 1, Base: &http.Transport{}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = answer.Body.Close()
	if asked.Load() != 2 || connections.Load() != 1 {
		t.Errorf("asked %d times on %d connections, want 2 on 1", asked.Load(), connections.Load())
	}
}

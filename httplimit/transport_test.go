//nolint:bodyclose // the answers of these servers are tested for whether they were closed
package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// body tells whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error {
	b.closed = true
	return nil
}

// answers is a server that gives one answer after the other, the last one for ever.
type answers struct {
	all    []*http.Response
	asked  int
	bodies []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		a.bodies = append(a.bodies, string(text))
		_ = r.Body.Close()
	}
	answer := a.all[min(a.asked, len(a.all)-1)]
	a.asked++
	return answer, nil
}

func answer(status int, fields ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: &body{Reader: strings.NewReader("text")}}
}

func request(t *testing.T, method, text string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://Host.example/x", strings.NewReader(text))
	limittest.Must(t, err)
	return r
}

func TestHowLongAnAnswerHasCallersPause(t *testing.T) {
	now := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // the time of a bubble
	in5 := now.Add(5 * time.Second).Format(http.TimeFormat)
	for name, c := range map[string]struct {
		answer *http.Response
		want   time.Duration
	}{
		"seconds":     {answer(429, "Retry-After", "7"), 7 * time.Second},
		"unavailable": {answer(503, "Retry-After", " 7 "), 7 * time.Second},
		"a date":      {answer(429, "Retry-After", in5), 5 * time.Second},
		"a date by their clock": {answer(429, "Retry-After", in5, "Date",
			now.Add(3*time.Second).Format(http.TimeFormat)), 2 * time.Second},
		"a date that is over":   {answer(429, "Retry-After", now.Add(-time.Hour).Format(http.TimeFormat)), 0},
		"more than is honoured": {answer(429, "Retry-After", strings.Repeat("9", 40)), time.Minute},
		"no number":             {answer(429, "Retry-After", "-1"), 0},
		"served":                {answer(200, "Retry-After", "7"), 0},
		"nothing remains":       {answer(200, "RateLimit", `"a";r=0;t=4`), 4 * time.Second},
		"from a cache":          {answer(200, "RateLimit", `"a";r=0;t=4`, "Age", "1"), 0},
		"through a cache":       {answer(200, "RateLimit", `"a";r=0;t=4`, "Age", "0"), 4 * time.Second},
		"something remains":     {answer(200, "RateLimit", `"a";r=1;t=4`), 0},
		"of several policies": {answer(200, "RateLimit", `"a";r=1;t=9, "b";r=0;t=4 ,c; r=0;t=3;pk=:YQ==:;x`),
			4 * time.Second},
		"in several lines": {answer(200, "RateLimit", `"a";r=1;t=9`, "RateLimit", `"b";r=0;t=4`),
			4 * time.Second},
		"a name that needs quoting": {answer(200, "RateLimit", `"a\";r=0;t=9,";r=0;t=4`), 4 * time.Second},
		"both":                      {answer(429, "Retry-After", "2", "RateLimit", `"a";r=0;t=4`), 2 * time.Second},
		"malformed in part":         {answer(200, "RateLimit", `"a";r=0;t=4,`+`"b;r=0`), 4 * time.Second},
		"malformed behind":          {answer(200, "RateLimit", `"a";r=0;t=4 "b"`), 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &answers{all: []*http.Response{c.answer, answer(200)}}
			transport := &httplimit.Transport{Base: server}
			for range 2 {
				if _, err := transport.RoundTrip(request(t, http.MethodGet, "")); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := time.Since(now); got != c.want {
				t.Errorf("%s: the second request waited %s, want %s", name, got, c.want)
			}
		})
	}
}

func TestWhatIsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		method         string
		status         int
		pause          string
		retries, asked int
		change         func(*http.Request)
	}{
		"nothing by itself": {"GET", 429, "2", 0, 1, nil},
		"once":              {"GET", 429, "2", 1, 2, nil},
		"as often as told":  {"POST", 429, "2", 3, 4, nil},
		"idempotent":        {"PUT", 503, "2", 1, 2, nil},
		"not idempotent":    {"POST", 503, "2", 1, 1, nil},
		"idempotent by a key": {"POST", 503, "2", 1, 2,
			func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }},
		"a body that is gone":     {"PUT", 429, "2", 1, 1, func(r *http.Request) { r.GetBody = nil }},
		"too little time":         {"GET", 429, "2", 1, 1, withTimeout(time.Second)},
		"longer than is honoured": {"GET", 429, "61", 1, 1, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &answers{}
			for range 5 {
				server.all = append(server.all, answer(c.status, "Retry-After", c.pause))
			}
			r := request(t, c.method, "hello")
			if c.change != nil {
				c.change(r)
			}
			before := r.Clone(r.Context())
			got, err := (&httplimit.Transport{Base: server, Retries: c.retries}).RoundTrip(r)
			if err != nil || server.asked != c.asked || got.StatusCode != c.status {
				t.Fatalf("%s: asked %d times, want %d: %v", name, server.asked, c.asked, err)
			}
			for i, text := range server.bodies {
				if text != "hello" {
					t.Errorf("%s: body %d is %q", name, i, text)
				}
			}
			for i, a := range server.all[:c.asked] {
				if last := i == c.asked-1; a.Body.(*body).closed == last {
					t.Errorf("%s: closed is %v of answer %d", name, !last, i)
				}
			}
			if r.Body != before.Body || len(r.Header) != len(before.Header) || r.URL.String() != before.URL.String() {
				t.Errorf("%s: the request was changed", name)
			}
		})
	}
}

func withTimeout(d time.Duration) func(*http.Request) {
	return func(r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		context.AfterFunc(ctx, cancel)
		*r = *r.WithContext(ctx)
	}
}

// waits is a Waiter that keeps what it was asked for.
type waits struct {
	n   []int64
	err error
}

func (w *waits) Acquire(_ context.Context, n int64) (shardlimit.Decision, error) {
	w.n = append(w.n, n)
	return shardlimit.Decision{Allowed: true, Granted: n}, w.err
}

func (w *waits) Settle(context.Context, shardlimit.Decision, int64) error { return nil }

func TestRequestsThatAreNotMadeCloseTheirBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answers{all: []*http.Response{answer(429, "Retry-After", "30"), answer(200)}}
		w := &waits{}
		transport := &httplimit.Transport{Base: server, Permits: func(*http.Request) httplimit.Waiter { return w },
			Cost: func(r *http.Request) int64 { return r.ContentLength }}
		if _, err := transport.RoundTrip(request(t, http.MethodPost, "seven b")); err != nil {
			t.Fatal(err)
		}
		cancelled := errors.New("enough")
		for want, change := range map[error]func(*http.Request){
			shardlimit.ErrWaitTooLong: withTimeout(time.Second),
			cancelled: func(r *http.Request) {
				ctx, cancel := context.WithCancelCause(r.Context())
				time.AfterFunc(time.Second, func() { cancel(cancelled) })
				*r = *r.WithContext(ctx)
			},
		} {
			r, content := request(t, http.MethodPost, "x"), &body{Reader: strings.NewReader("x")}
			r.Body = content
			change(r)
			if _, err := transport.RoundTrip(r); !errors.Is(err, want) || !content.closed {
				t.Errorf("%v, closed %v; want %v", err, content.closed, want)
			}
		}
		if fmt.Sprint(w.n, server.asked) != "[7] 1" {
			t.Errorf("waited for %v, asked %d times", w.n, server.asked)
		}
		time.Sleep(time.Minute)
		w.err = shardlimit.ErrClosed
		if _, err := transport.RoundTrip(request(t, http.MethodPost, "x")); !errors.Is(err, w.err) {
			t.Errorf("the error of the Waiter became %v", err)
		}
		if _, err := transport.RoundTrip(request(t, http.MethodGet, "")); err != nil {
			t.Errorf("what costs nothing waited: %v", err)
		}
	})
}

// picky is a server that asks for a pause after every 70 calls, and tells of calls in one.
type picky struct {
	t     *testing.T
	mu    sync.Mutex
	calls int
	shut  time.Time // when it last asked for a pause
	open  time.Time // and until when
}

func (p *picky) RoundTrip(*http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.After(p.shut) && now.Before(p.open) {
		p.t.Errorf("a call in a pause, %s after its begin and %s before its end", now.Sub(p.shut), p.open.Sub(now))
	}
	if p.calls++; p.calls%70 != 0 {
		return answer(200), nil
	}
	p.shut, p.open = now, now.Add(4*time.Second)
	return answer(429, "Retry-After", "4"), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Five processes that share a Redis: nobody calls in a pause that one of them heard of, all go on
// when it is over, and every request is served.
func TestAFleetKeepsAPause(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		server := &picky{t: t}
		var all sync.WaitGroup
		for process := range 5 {
			client := f.Client(t)
			hosts := limittest.Family(t, client, "hosts", shardlimit.PerSecond(40))
			transport := &httplimit.Transport{Pauses: shared(t, client), Retries: 3, Base: server,
				Permits: httplimit.WaitPerKey(hosts, httplimit.Host)}
			for caller := range 4 {
				all.Go(func() {
					time.Sleep(time.Duration(5*caller+process) * 7 * time.Millisecond)
					for range 20 {
						got, err := transport.RoundTrip(request(t, http.MethodGet, ""))
						if err != nil || got.StatusCode != http.StatusOK {
							t.Errorf("process %d: %+v, %v", process, got, err)
							return
						}
						time.Sleep(331 * time.Millisecond)
					}
				})
			}
		}
		all.Wait()
		if pauses := server.calls - 5*4*20; pauses != 5 {
			t.Errorf("there were %d pauses", pauses)
		}
	})
}

func shared(t *testing.T, client *shardlimit.Client) *httplimit.Pauses {
	t.Helper()
	pauses, err := httplimit.SharedPauses(t.Context(), client, "pauses", time.Minute)
	limittest.Must(t, err)
	return pauses
}

// Pauses that several begin at once last as long as the longest of them, and no longer.
func TestPausesDoNotAddUp(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		var fleet []*httplimit.Pauses
		for range 5 {
			fleet = append(fleet, shared(t, f.Client(t)))
		}
		var all sync.WaitGroup
		begun := time.Now()
		for i, p := range fleet[:4] {
			all.Go(func() {
				if err := p.Begin(t.Context(), "host", time.Duration(5+i%2*5)*time.Second); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		left, err := fleet[4].Left(t.Context(), "host")
		if ends := left + time.Since(begun); err != nil || ends < 10*time.Second || ends > 10020*time.Millisecond {
			t.Errorf("the pause ends after %s, %v", ends, err)
		}
		if left, err := fleet[4].Left(t.Context(), "other"); err != nil || left != 0 {
			t.Errorf("another key: %s, %v", left, err)
		}
		time.Sleep(left)
		if left, err := fleet[4].Left(t.Context(), "host"); err != nil || left != 0 {
			t.Errorf("when it is over another %s are left, %v", left, err)
		}
		limittest.Must(t, fleet[0].Begin(t.Context(), "host", time.Hour))
		if left, err := fleet[1].Left(t.Context(), "host"); err != nil || left != time.Minute {
			t.Errorf("a pause of an hour lasts %s, %v", left, err)
		}
	})
}

// Over a port: a refused request is made again on the same connection, with its body.
func TestARetryKeepsItsConnection(t *testing.T) {
	asked := make(chan string, 3)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if asked <- fmt.Sprintf("%s %q %v", r.RemoteAddr, body, err); len(asked) == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, strings.Repeat("later ", 5000), http.StatusTooManyRequests)
		}
	}))
	defer web.Close()
	client := http.Client{Transport: &httplimit.Transport{Retries: 1, Base: &http.Transport{}}}
	defer client.CloseIdleConnections()
	answer, err := client.Post(web.URL, "text/plain", strings.NewReader("a body"))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	_ = answer.Body.Close()
	if first, again := <-asked, <-asked; again != first || !strings.HasSuffix(first, ` "a body" <nil>`) {
		t.Errorf("asked by %s and by %s", first, again)
	}
}

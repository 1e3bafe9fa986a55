package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// says is a limiter that gives a fixed answer, and the number of permits it was asked for.
type says struct {
	d     shardlimit.Decision
	err   error
	asked int64
}

func (s *says) AllowN(_ context.Context, n int64) (shardlimit.Decision, error) {
	s.asked = n
	return s.d, s.err
}

func (s *says) Settle(context.Context, shardlimit.Decision, int64) error { return s.err }

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("served")) })

func get(h http.Handler, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// behind answers a request with a limit in front of a handler.
func behind(l httplimit.Limiter, o httplimit.Options) *httptest.ResponseRecorder {
	return get(httplimit.New(httplimit.One(l), o)(ok))
}

// has fails the test unless these fields, and no other ones, tell of a limit.
func has(t *testing.T, h http.Header, what string, want map[string]string) {
	t.Helper()
	told := 0
	for name := range h {
		if strings.Contains(strings.ToLower(name), "ratelimit") || name == "Retry-After" {
			told++
		}
	}
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("%s: %s is %q, want %q", what, name, got, value)
		}
	}
	if told != len(want) {
		t.Errorf("%s: %d fields of %v tell of a limit, want %d", what, told, h, len(want))
	}
}

// An answer has the status, fields and details of the decision, and nothing of the cause. One that
// comes after a turn tells what is left from then on.
func TestWhatAnAnswerSays(t *testing.T) {
	allowed := func(left int64, reset time.Duration) says {
		return says{d: shardlimit.Decision{Allowed: true, Limit: 10, Remaining: left, ResetAfter: reset}}
	}
	denied := func(left int64, retry time.Duration) says {
		return says{d: shardlimit.Decision{Limit: 10, Remaining: left, RetryAfter: retry, ResetAfter: time.Hour}}
	}
	failed := func(err error) says { return says{err: fmt.Errorf("%w: why", err)} }
	for name, c := range map[string]struct {
		says   says
		status int
		retry  int
		limit  string
		detail string // of a problem that is no refusal
	}{
		"allowed": {says: allowed(4, 1500*time.Millisecond), status: 200, limit: "r=4;t=2"},
		"after its turn": {says: says{d: shardlimit.Decision{Allowed: true, Limit: 10, Delay: time.Minute,
			ResetAfter: 70 * time.Second}}, status: 200, limit: "r=0;t=10"},
		"denied":              {denied(0, 2*time.Second+1), 429, 3, "r=0;t=3", ""},
		"for whole seconds":   {denied(0, 2*time.Second), 429, 2, "r=0;t=2", ""},
		"a negative rest":     {denied(-2, time.Second), 429, 1, "r=0;t=1", ""},
		"denied in an outage": {says{d: shardlimit.Decision{Degraded: true, RetryAfter: time.Minute}}, 429, 60, "", ""},
		"nobody answered": {failed(shardlimit.ErrUnavailable), 503, 0, "",
			"no decision about this request was possible"},
		"no key":     {failed(shardlimit.ErrInvalidName), 400, 0, "", "this request has no key to count it by"},
		"no permits": {failed(shardlimit.ErrInvalidPermits), 400, 0, "", "this request cannot be rated"},
		"too costly": {failed(shardlimit.ErrExceedsLimit), 400, 0, "",
			"this request costs more than its whole limit"},
		"a plan that cannot be": {failed(shardlimit.ErrInvalidLimit), 500, 0, "",
			"this server has no limit that can be for this request"},
		"a negative weight": {failed(shardlimit.ErrInvalidConfig), 500, 0, "",
			"this server has no limit that can be for this request"},
	} {
		var w *httptest.ResponseRecorder
		synctest.Test(t, func(*testing.T) { w = behind(&c.says, httplimit.Options{Policy: "p"}) })
		want := map[string]string{}
		if c.limit != "" {
			want["RateLimit"], want["RateLimit-Policy"] = `"p";`+c.limit, `"p";q=10`
		}
		if c.status == http.StatusTooManyRequests {
			want["Retry-After"] = fmt.Sprint(c.retry)
		}
		has(t, w.Header(), name, want)
		body := fmt.Sprintf(`{"type":"about:blank","title":%q,"status":%d,"detail":%q}`+"\n",
			http.StatusText(c.status), c.status, c.detail)
		switch c.status {
		case http.StatusOK:
			body = "served"
		case http.StatusTooManyRequests:
			body = fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",`+
				`"title":"The quota of a policy is exceeded","status":429,"detail":"too many requests",`+
				`"policy":"p","violated-policies":["p"],"retry_after":%d}`+"\n", c.retry)
		}
		typed := w.Header().Get("Content-Type") == "application/problem+json"
		if w.Code != c.status || w.Body.String() != body || typed != (c.status != http.StatusOK) {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
	}
}

// A request takes what it costs, and the handler knows what was decided. One that costs nothing, or
// has no limiter, passes without asking.
func TestCosts(t *testing.T) {
	l := &says{d: shardlimit.Decision{Allowed: true, Limit: 10}}
	for _, cost := range []int64{7, 0} {
		l.asked = 0
		_, before := httplimit.DecisionOf(t.Context())
		get(httplimit.New(httplimit.One(l), httplimit.Options{Cost: func(*http.Request) int64 { return cost }})(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if d, there := httplimit.DecisionOf(r.Context()); there != (cost > 0) || there && d.Limit != 10 || before {
					t.Errorf("a cost of %d: %v, %v, %v", cost, there, d, before)
				}
			})))
		if l.asked != cost {
			t.Errorf("asked for %d of %d", l.asked, cost)
		}
	}
	for _, none := range []httplimit.Limiter{nil, (*shardlimit.Limiter)(nil), (*httplimit.Policies)(nil)} {
		w := get(httplimit.New(func(*http.Request) httplimit.Limiter { return none }, httplimit.Options{})(ok))
		has(t, w.Header(), "without a limiter", nil)
	}
}

func TestTheAnswersCanBeReplaced(t *testing.T) {
	o := httplimit.Options{
		Denied: func(w http.ResponseWriter, _ *http.Request, d shardlimit.Decision) {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, d.RetryAfter)
		},
		Failed: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		},
	}
	w := behind(&says{d: shardlimit.Decision{RetryAfter: time.Minute}}, o)
	if w.Code != http.StatusTeapot || w.Body.String() != "1m0s" || w.Header().Get("Retry-After") != "60" {
		t.Errorf("denied: %d %q %v", w.Code, w.Body, w.Header())
	}
	if w = behind(&says{err: shardlimit.ErrInvalidName}, o); w.Code != http.StatusUnauthorized {
		t.Errorf("failed: %d", w.Code)
	}
}

func TestMistakesOfTheProgramPanic(t *testing.T) {
	for name, do := range map[string]func(){
		"no chooser":  func() { httplimit.New(nil, httplimit.Options{}) },
		"no limiter":  func() { httplimit.One(nil) },
		"nil limiter": func() { httplimit.One((*shardlimit.Limiter)(nil)) },
		"no family":   func() { httplimit.PerKey(nil, httplimit.RemoteIP) },
		"no key":      func() { httplimit.PerKey(&shardlimit.Family{}, nil) },
		"bits":        func() { httplimit.Address(httplimit.AddressOptions{IPv4Bits: 33}) },
		"field":       func() { httplimit.Address(httplimit.AddressOptions{Field: "X-Forwarded For"}) },
		"prefix":      func() { httplimit.Address(httplimit.AddressOptions{Trusted: make([]netip.Prefix, 1)}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			do()
		}()
	}
}

// A client that sleeps for Retry-After succeeds, and one that comes a second earlier does not.
func TestWhoSleepsRetryAfterUnderEachAlgorithm(t *testing.T) {
	for _, limit := range []shardlimit.Limit{
		{Permits: 3, Per: time.Minute}, {Permits: 40, Per: time.Minute, Shards: 4},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.SlidingCounter},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.FixedWindow},
		{Permits: 3, Per: time.Minute, Algorithm: shardlimit.TokenBucket, Burst: 3},
	} {
		limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
			h := httplimit.New(httplimit.One(f.Limiter(t, limit)), httplimit.Options{})(ok)
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

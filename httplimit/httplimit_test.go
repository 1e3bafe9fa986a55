package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/httplimit"
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

func TestWhatAnAnswerSays(t *testing.T) {
	for name, c := range map[string]struct {
		says   says
		policy string
		status int
		retry  string
		limit  string
		rules  string
	}{
		"allowed": {says: says{d: shardlimit.Decision{Allowed: true, Limit: 10, Remaining: 4,
			ResetAfter: 1500 * time.Millisecond}},
			status: 200, limit: `"default";r=4;t=2`, rules: `"default";q=10`},
		"allowed and unused before": {says: says{d: shardlimit.Decision{Allowed: true, Limit: 10, Remaining: 10}},
			status: 200, limit: `"default";r=10;t=0`, rules: `"default";q=10`},
		"denied": {says: says{d: shardlimit.Decision{Limit: 10, RetryAfter: 2*time.Second + 1, ResetAfter: time.Hour}},
			status: 429, retry: "3", limit: `"default";r=0;t=3`, rules: `"default";q=10`},
		"denied for whole seconds": {says: says{d: shardlimit.Decision{Limit: 10, RetryAfter: 2 * time.Second}},
			status: 429, retry: "2", limit: `"default";r=0;t=2`, rules: `"default";q=10`},
		"denied for an instant": {says: says{d: shardlimit.Decision{Limit: 10, RetryAfter: 1}},
			status: 429, retry: "1", limit: `"default";r=0;t=1`, rules: `"default";q=10`},
		"never a negative remainder": {says: says{d: shardlimit.Decision{Limit: 10, Remaining: -2,
			RetryAfter: time.Second}},
			status: 429, retry: "1", limit: `"default";r=0;t=1`, rules: `"default";q=10`},
		"a name that needs quoting": {policy: `a "b" \`, says: says{d: shardlimit.Decision{Allowed: true, Limit: 1}},
			status: 200, limit: `"a \"b\" \\";r=0;t=0`, rules: `"a \"b\" \\";q=1`},
		"open while Redis is away": {says: says{d: shardlimit.Decision{Allowed: true, Degraded: true, Limit: 10}},
			status: 200},
		"denied while Redis is away": {says: says{d: shardlimit.Decision{Degraded: true, Limit: 10,
			RetryAfter: time.Minute}},
			status: 429, retry: "60"},
		"nobody answered":       {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrUnavailable)}, status: 503},
		"no key":                {says: says{err: fmt.Errorf("%w: empty", shardlimit.ErrInvalidName)}, status: 400},
		"more than there is":    {says: says{err: fmt.Errorf("%w: 11", shardlimit.ErrExceedsLimit)}, status: 400},
		"the client was closed": {says: says{err: shardlimit.ErrClosed}, status: 503},
		"a plan that cannot be": {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrInvalidLimit)}, status: 500},
		"a negative weight":     {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrInvalidConfig)}, status: 500},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(httplimit.New(httplimit.One(&c.says), httplimit.Options{Policy: c.policy})(ok))
			if w.Code != c.status || (w.Body.String() == "served") != (c.status == 200) {
				t.Errorf("status %d, %q", w.Code, w.Body)
			}
			for field, want := range map[string]string{"Retry-After": c.retry, "RateLimit": c.limit,
				"RateLimit-Policy": c.rules} {
				if got := w.Header().Get(field); got != want {
					t.Errorf("%s is %q, want %q", field, got, want)
				}
			}
			if strings.Contains(w.Body.String(), "why") {
				t.Errorf("the cause is told to the client: %q", w.Body)
			}
		})
	}
}

func TestCostAndDecisionAndNoLimiter(t *testing.T) {
	l := &says{d: shardlimit.Decision{Allowed: true, Granted: 7, Limit: 10}}
	var seen shardlimit.Decision
	var there bool
	h := httplimit.New(httplimit.One(l), httplimit.Options{Cost: func(*http.Request) int64 { return 7 }})(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			seen, there = httplimit.DecisionOf(r.Context())
		}))
	get(h)
	if l.asked != 7 || !there || seen.Granted != 7 {
		t.Errorf("asked for %d; the handler saw %v %+v", l.asked, there, seen)
	}
	if _, there := httplimit.DecisionOf(t.Context()); there {
		t.Error("a decision where none was made")
	}
	w := get(httplimit.New(func(*http.Request) httplimit.Limiter { return nil }, httplimit.Options{})(ok))
	if w.Code != 200 || w.Header().Get("RateLimit") != "" {
		t.Errorf("without a limiter: %d %v", w.Code, w.Header())
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
	w := get(httplimit.New(httplimit.One(&says{d: shardlimit.Decision{RetryAfter: time.Minute}}), o)(ok))
	if w.Code != http.StatusTeapot || w.Body.String() != "1m0s" || w.Header().Get("Retry-After") != "60" {
		t.Errorf("denied: %d %q %v", w.Code, w.Body, w.Header())
	}
	w = get(httplimit.New(httplimit.One(&says{err: shardlimit.ErrInvalidName}), o)(ok))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("failed: %d", w.Code)
	}
}

func TestRemoteIP(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.7":                  "192.0.2.7",
		" 192.0.2.7 ":                "192.0.2.7",
		"[::ffff:192.0.2.7]:80":      "192.0.2.7",
		"::FFFF:C000:207":            "192.0.2.7",
		"[::ffff:192.0.2.7%eth0]:80": "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:1":   "2001:db8:1:2::/64",
		"[2001:db8:1:2:3:4:5:6]":     "2001:db8:1:2::/64",
		"2001:DB8:1:2::1":            "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":           "fe80::/64",
		"fe80::1%ETH1":               "fe80::/64",
		"fe80::1%":                   "fe80::1%",
		"192.0.2.07":                 "192.0.2.07",
		"[192.0.2.7]":                "[192.0.2.7]",
		"192.0.2.7:http":             "192.0.2.7:http",
		"Unix.Example:1":             "unix.example:1",
		"@":                          "@", // a Unix socket
		"":                           "",
	} {
		if got := httplimit.RemoteIP(&http.Request{RemoteAddr: in}); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestMistakesOfTheProgramPanic(t *testing.T) {
	for name, do := range map[string]func(){
		"no chooser":  func() { httplimit.New(nil, httplimit.Options{}) },
		"no limiter":  func() { httplimit.One(nil) },
		"nil limiter": func() { httplimit.One((*shardlimit.Limiter)(nil)) },
		"no family":   func() { httplimit.PerKey(nil, httplimit.RemoteIP) },
		"no key":      func() { httplimit.Join(httplimit.Method, nil) },
		"no user":     func() { httplimit.User(nil) },
		"bits":        func() { httplimit.Address(httplimit.AddressOptions{IPv4Bits: 33}) },
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

// open is a client of a node on a port.
func open(t *testing.T) *shardlimit.Client {
	t.Helper()
	servers, err := embedded.Start(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(servers.Close)
	return connected(t, servers)
}

func connected(t *testing.T, servers *embedded.Servers) *shardlimit.Client {
	t.Helper()
	client, err := shardlimit.New(shardlimit.Config{Nodes: servers.Nodes(), CallTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

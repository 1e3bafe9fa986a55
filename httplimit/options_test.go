package httplimit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

func TestACostOfNothingAsksNobody(t *testing.T) {
	l := &says{err: shardlimit.ErrExceedsLimit}
	cost := int64(0)
	o := httplimit.Options{Cost: func(*http.Request) int64 { return cost }}
	if w := get(httplimit.New(httplimit.One(l), o)(ok)); w.Code != 200 || l.asked != 0 {
		t.Errorf("for nothing: %d, asked for %d", w.Code, l.asked)
	}
	one := declared(t, open(t), "one", shardlimit.PerHour(5))
	cost = -1
	if w := get(httplimit.New(httplimit.One(one), o)(ok)); w.Code != 400 {
		t.Errorf("a negative cost: %d", w.Code)
	}
}

func TestFieldsThatCanBeChosen(t *testing.T) {
	l := &says{d: shardlimit.Decision{Limit: 10, RetryAfter: 1500 * time.Millisecond,
		ResetAfter: 90*time.Second + 1001*time.Microsecond}}
	for fields, want := range map[httplimit.Fields]map[string]string{
		httplimit.Draft:   {"RateLimit-Policy": `"default";q=10`, "RateLimit": `"default";r=0;t=2`},
		httplimit.Triple:  {"RateLimit-Limit": "10", "RateLimit-Remaining": "0", "RateLimit-Reset": "2"},
		httplimit.XTriple: {"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "2"},
		httplimit.OpenAI: {"X-RateLimit-Limit-Default": "10", "X-RateLimit-Remaining-Default": "0",
			"X-RateLimit-Reset-Default": "1m30.002s"},
		httplimit.NoFields: {},
	} {
		h := get(httplimit.New(httplimit.One(l), httplimit.Options{Fields: fields})(ok)).Header()
		for name, value := range want {
			if got := h.Get(name); got != value {
				t.Errorf("fields %d: %s is %q, want %q", fields, name, got, value)
			}
		}
		if n := len(want) + 1 + 2; len(h) != n || h.Get("Retry-After") != "2" { // and two of the problem
			t.Errorf("fields %d: %v", fields, h)
		}
	}
}

// Each answer tells of each policy, and a refusal says which refused: it costs the others nothing.
func TestPoliciesTellOfEachLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		h := httplimit.New(httplimit.One(httplimit.All(
			httplimit.Policy{Name: "minute", Limiter: declared(t, c, "minute", shardlimit.PerMinute(2))},
			httplimit.Policy{Name: `"hour"`, Limiter: declared(t, c, "hour", shardlimit.PerHour(2))})),
			httplimit.Options{})(ok)
		var last string
		for i, want := range []string{`"minute";r=1;t=60, "\"hour\"";r=1;t=3600`,
			`"minute";r=0;t=60, "\"hour\"";r=0;t=3600`,
			`"minute";r=0;t=60, "\"hour\"";r=0;t=3600`} {
			w := get(h)
			if got := w.Header().Get("RateLimit"); got != want {
				t.Errorf("request %d: %s, want %s", i, got, want)
			}
			if got := w.Header().Get("RateLimit-Policy"); got != `"minute";q=2;w=60, "\"hour\"";q=2;w=3600` {
				t.Errorf("request %d: the policies are %s", i, got)
			}
			last = w.Body.String()
		}
		if !strings.Contains(last, `"violated-policies":["\"hour\"","minute"]`) {
			t.Errorf("the problem is %s", last)
		}
	})
	if h := get(httplimit.New(httplimit.One(httplimit.All()), httplimit.Options{})(ok)).Header(); len(h) != 1 {
		t.Errorf("of no limits: %v", h)
	}
}

// Policies tell the limit that is in force for a key, whatever limit a call brings.
func TestPoliciesTellWhatIsInForce(t *testing.T) {
	f, err := open(t).Family(t.Context(), "f", shardlimit.PerHour(10))
	if err != nil {
		t.Fatal(err)
	}
	later := shardlimit.PerHour(100)
	later.Revision = 5
	if _, err := f.LimiterWith("k", later).Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := get(httplimit.New(httplimit.One(httplimit.All(httplimit.Policy{Name: "key", Limiter: f.Limiter("k")})),
		httplimit.Options{})(ok)).Header()
	if h.Get("RateLimit-Policy") != `"key";q=100;w=3600` || h.Get("RateLimit") != `"key";r=98;t=3600` {
		t.Errorf("%v", h)
	}
}

func TestProblemDetails(t *testing.T) {
	for name, c := range map[string]struct {
		says   says
		status int
		detail string
		retry  int
	}{
		"denied":      {says{d: shardlimit.Decision{RetryAfter: 1500 * time.Millisecond}}, 429, "too many requests", 2},
		"unavailable": {says{err: shardlimit.ErrUnavailable}, 503, "no decision about this request was possible", 0},
		"no key":      {says{err: shardlimit.ErrInvalidName}, 400, "this request has no key to count it by", 0},
		"no permits":  {says{err: shardlimit.ErrInvalidPermits}, 400, "this request cannot be rated", 0},
		"too costly":  {says{err: shardlimit.ErrExceedsLimit}, 400, "this request costs more than its whole limit", 0},
	} {
		w := get(httplimit.New(httplimit.One(&c.says), httplimit.Options{Policy: "p"})(ok))
		var body struct {
			Type, Title, Detail, Policy string
			Status                      int
			RetryAfter                  int      `json:"retry_after"`
			Violated                    []string `json:"violated-policies"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatalf("%s: %v in %q", name, err, w.Body)
		}
		typed := strings.HasSuffix(body.Type, "#quota-exceeded") && body.Title != http.StatusText(c.status) &&
			slices.Equal(body.Violated, []string{"p"})
		if name != "denied" {
			typed = body.Type == "about:blank" && body.Title == http.StatusText(c.status) && body.Violated == nil
		}
		if w.Code != c.status || body.Status != c.status || !typed ||
			body.Detail != c.detail || body.RetryAfter != c.retry || (body.Policy == "p") != (name == "denied") ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %+v", name, w.Code, w.Header(), body)
		}
	}
}

// A name that cannot stand in a header is told percent-encoded, there and in the problem; one that
// can is told as it is.
func TestNamesThatNoHeaderCanHave(t *testing.T) {
	limiter := declared(t, open(t), "l", shardlimit.Limit{Permits: 5, Per: time.Hour, Mode: shardlimit.Closed})
	for name, want := range map[string]string{"50%": "50%", "größe 5%": "gr%C3%B6%C3%9Fe 5%25",
		"\xff\r\n": "%FF%0D%0A"} {
		for what, l := range map[string]httplimit.Limiter{"one": limiter,
			"policies": httplimit.All(httplimit.Policy{Name: name, Limiter: limiter})} {
			w := get(httplimit.New(httplimit.One(l), httplimit.Options{Policy: name})(ok))
			has(t, w.Header(), what, map[string]string{"RateLimit": `"` + want + `";r=0;t=15`,
				"RateLimit-Policy": `"` + want + `";q=5;w=3600`, "Retry-After": "15"})
			if !strings.Contains(w.Body.String(), `"policy":"`+want+`","violated-policies":["`+want+`"]`) {
				t.Errorf("%s of %q: %s", what, name, w.Body)
			}
		}
	}
}

// Who is refused, and who would be, is told.
func TestWhoIsToldOfRefusals(t *testing.T) {
	var line bytes.Buffer
	log := slog.New(slog.NewTextHandler(&line, nil))
	o := httplimit.Options{Policy: "new", Cost: func(*http.Request) int64 { return 3 },
		OnDenied: func(_ *http.Request, d httplimit.Denial) { log.Info("refused", "denial", d) }}
	late := shardlimit.Decision{Limit: 9, RetryAfter: time.Second, Reason: shardlimit.ReasonLate}
	for _, l := range []*says{{d: late}, {d: shardlimit.Decision{Allowed: true, Shadowed: true}},
		{d: shardlimit.Decision{Allowed: true}}, {err: shardlimit.ErrUnavailable}} {
		get(httplimit.New(httplimit.One(l), o)(ok))
	}
	told := line.String()
	if strings.Count(told, "\n") != 2 || !strings.Contains(told, "denial.policy=new denial.cost=3 denial.limit=9") ||
		!strings.Contains(told, "retry_after=1s denial.degraded=false denial.shadowed=false denial.reason=late") ||
		!strings.Contains(told, "denial.shadowed=true") {
		t.Errorf("the log has %s", told)
	}
}

func TestRefundGivesBackWhatEveryMiddlewareTook(t *testing.T) {
	client := open(t)
	outer := declared(t, client, "outer", shardlimit.PerHour(5))
	inner := declared(t, client, "inner", shardlimit.PerHour(5))
	var results []error
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		results = append(results, httplimit.Settle(r.Context(), 0))
		if err := httplimit.Settle(r.Context(), 0); !errors.Is(err, shardlimit.ErrSettled) {
			t.Errorf("a second time: %v", err)
		}
	})
	get(httplimit.New(httplimit.One(outer), httplimit.Options{})(
		httplimit.New(httplimit.One(httplimit.All(httplimit.Policy{Name: "i", Limiter: inner})),
			httplimit.Options{})(h)))
	for _, l := range []*shardlimit.Limiter{outer, inner} {
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 0 {
			t.Errorf("%s: %d used, %v", l.Name(), st.Used, err)
		}
	}
	results = append(results, httplimit.Settle(t.Context(), 0))
	if err := errors.Join(results...); err != nil {
		t.Error(err)
	}
	var err error
	get(httplimit.New(httplimit.One(&says{d: shardlimit.Decision{Allowed: true, Granted: 1}}), httplimit.Options{})(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { err = httplimit.Settle(r.Context(), 0) })))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a limiter without Settle: %v", err)
	}
}

// A policy with Permits of its own takes those, whatever the request costs, and keeps them when the
// request is settled, unless nothing was used.
func TestAPolicyWithPermitsOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		requests := declared(t, c, "requests", shardlimit.PerHour(10))
		tokens := declared(t, c, "tokens", shardlimit.PerHour(1000))
		all := httplimit.All(httplimit.Policy{Name: "requests", Limiter: requests, Permits: 1},
			httplimit.Policy{Name: "tokens", Limiter: tokens})
		used := func(what string, wantRequests, wantTokens int64) {
			t.Helper()
			r, failed := requests.Peek(t.Context())
			n, err := tokens.Peek(t.Context())
			if err != nil || failed != nil || r.Used != wantRequests || n.Used != wantTokens {
				t.Errorf("%s: %d requests and %d tokens used, %v", what, r.Used, n.Used, err)
			}
		}
		h := httplimit.New(httplimit.One(all), httplimit.Options{Cost: func(*http.Request) int64 { return 300 }})(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				used("before", 1, 300)
				if err := httplimit.Settle(r.Context(), 120); err != nil {
					t.Error(err)
				}
			}))
		if w := get(h); w.Code != http.StatusOK {
			t.Errorf("status %d", w.Code)
		}
		used("settled", 1, 120)
		d, err := all.Acquire(t.Context(), 500)
		if err != nil {
			t.Fatal(err)
		}
		used("waited", 2, 620)
		if err := all.Settle(t.Context(), d, 0); err != nil {
			t.Error(err)
		}
		used("given back", 1, 120)
		if err := all.WaitN(t.Context(), 10); err != nil {
			t.Error(err)
		}
		used("waited again", 2, 130)
	})
}

// OpenAI's fields tell of each policy that refuses anybody, also when one refuses.
func TestFieldsOfOpenAITellOfEachPolicy(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		all := httplimit.All(
			httplimit.Policy{Name: "requests", Permits: 1, Limiter: declared(t, c, "r", shardlimit.PerMinute(60))},
			httplimit.Policy{Name: "tokens", Limiter: declared(t, c, "t", shardlimit.PerMinute(900))},
			httplimit.Policy{Name: "watched", Limiter: declared(t, c, "w",
				shardlimit.Limit{Permits: 1, Per: time.Minute, Mode: shardlimit.Shadow})})
		h := httplimit.New(httplimit.One(all), httplimit.Options{Fields: httplimit.OpenAI,
			Cost: func(*http.Request) int64 { return 600 }})(http.NotFoundHandler())
		for i, status := range []int{http.StatusNotFound, http.StatusTooManyRequests} {
			w := get(h)
			if w.Code != status {
				t.Errorf("status %d, want %d", w.Code, status)
			}
			for name, want := range map[string]string{"Limit-Requests": "60", "Remaining-Requests": "59",
				"Reset-Requests": "1m0s", "Limit-Tokens": "900", "Remaining-Tokens": "300", "Reset-Tokens": "1m0s",
				"Limit-Watched": "", "Remaining": "", "Limit": ""} {
				if got := w.Header().Get("X-RateLimit-" + name); got != want {
					t.Errorf("answer %d: X-RateLimit-%s is %q, want %q", i, name, got, want)
				}
			}
		}
	})
}

package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Answers tell of each policy that is enforced, in each form, what it has left and until when. Of
// the last permit it is until the next is free. A refusal says which refused: it costs the others
// nothing.
func TestAnswersTellOfEachPolicy(t *testing.T) {
	minute, hour, day := shardlimit.PerMinute(2), shardlimit.PerHour(2), shardlimit.PerDay(100)
	watched := shardlimit.Limit{Permits: 1, Per: 24 * time.Hour, Mode: shardlimit.Shadow}
	both := `"a";q=2;w=60, "\"b\"";q=2;w=3600`
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		for name, of := range map[string]struct {
			a, b     shardlimit.Limit
			fields   httplimit.Fields
			requests int
			apart    time.Duration
			want     map[string]string
			violated string
			away     bool // the node of a; another client has used b up
		}{
			"one of two": {a: minute, b: hour, requests: 1,
				want: map[string]string{"RateLimit": `"a";r=1;t=60, "\"b\"";r=1;t=3600`, "RateLimit-Policy": both}},
			"refused by two": {a: minute, b: hour, requests: 3, violated: `["\"b\"","a"]`,
				want: map[string]string{"RateLimit": `"a";r=0;t=60, "\"b\"";r=0;t=3600`, "RateLimit-Policy": both,
					"Retry-After": "3600"}},
			"the last permit": {a: shardlimit.PerMinute(6), b: day, requests: 6, apart: 9 * time.Second,
				want: map[string]string{"RateLimit": `"a";r=0;t=15, "\"b\"";r=94;t=86400`,
					"RateLimit-Policy": `"a";q=6;w=60, "\"b\"";q=100;w=86400`}},
			"beside a shadow": {a: watched, b: hour, requests: 3, violated: `["\"b\""]`,
				want: map[string]string{"RateLimit": `"\"b\"";r=0;t=3600`, "RateLimit-Policy": `"\"b\"";q=2;w=3600`,
					"Retry-After": "3600"}},
			"three fields": {a: watched, b: hour, requests: 1, fields: httplimit.Triple,
				want: map[string]string{"RateLimit-Limit": "2", "RateLimit-Remaining": "1", "RateLimit-Reset": "3600"}},
			"three X-fields": {a: watched, b: hour, requests: 1, fields: httplimit.XTriple,
				want: map[string]string{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1",
					"X-RateLimit-Reset": "3600"}},
			"as OpenAI": {a: minute, b: hour, requests: 3, fields: httplimit.OpenAI,
				want: map[string]string{"X-RateLimit-Limit-A": "2", "X-RateLimit-Remaining-A": "0",
					"X-RateLimit-Reset-A": "1m0s", `X-RateLimit-Limit-"b"`: "2", `X-RateLimit-Remaining-"b"`: "0",
					`X-RateLimit-Reset-"b"`: "1h0m0s", "Retry-After": "3600"}},
			"as OpenAI, beside a shadow": {a: watched, b: hour, requests: 1, fields: httplimit.OpenAI,
				want: map[string]string{`X-RateLimit-Limit-"b"`: "2", `X-RateLimit-Remaining-"b"`: "1",
					`X-RateLimit-Reset-"b"`: "1h0m0s"}},
			"beside one that fails": {a: minute, b: shardlimit.PerHour(1), away: true, requests: 1,
				violated: `["\"b\""]`, want: map[string]string{"RateLimit": `"\"b\"";r=0;t=3600`, "Retry-After": "3600",
					"RateLimit-Policy": `"\"b\"";q=1;w=3600`}},
		} {
			ofA := c
			if of.away {
				ofA = limittest.Away().Client(t)
				limittest.Passes(t, limittest.Limiter(t, f.Client(t), name+" b", of.b))
			}
			h := httplimit.New(httplimit.One(httplimit.All(
				httplimit.Policy{Name: "a", Limiter: limittest.Limiter(t, ofA, name+" a", of.a)},
				httplimit.Policy{Name: `"b"`, Limiter: limittest.Limiter(t, c, name+" b", of.b)})),
				httplimit.Options{Fields: of.fields})(ok)
			var got *httptest.ResponseRecorder
			for range of.requests {
				time.Sleep(of.apart)
				got = get(h)
			}
			has(t, got.Header(), name, of.want)
			if of.violated != "" && !strings.Contains(got.Body.String(), `"violated-policies":`+of.violated) {
				t.Errorf("%s: the problem is %s", name, got.Body)
			}
		}
	})
	has(t, behind(httplimit.All(), httplimit.Options{}).Header(), "of no limits", nil)
}

// Without a name the policy is the default one.
func TestFieldsThatCanBeChosen(t *testing.T) {
	l := &says{d: shardlimit.Decision{Limit: 10, RetryAfter: 1500 * time.Millisecond,
		ResetAfter: 90*time.Second + 1001*time.Microsecond}}
	for fields, want := range map[httplimit.Fields]map[string]string{
		httplimit.Draft: {"RateLimit-Policy": `"default";q=10`, "RateLimit": `"default";r=0;t=2`},
		httplimit.OpenAI: {"X-RateLimit-Limit-Default": "10", "X-RateLimit-Remaining-Default": "0",
			"X-RateLimit-Reset-Default": "1m30.002s"},
		httplimit.NoFields: {},
	} {
		want["Retry-After"] = "2"
		has(t, behind(l, httplimit.Options{Fields: fields}).Header(), fmt.Sprint(fields), want)
	}
}

// A limit that refuses nobody says nothing that clients would heed, before it is over and after.
func TestALimitThatRefusesNobodyThrottlesNobody(t *testing.T) {
	c := limittest.InProcess(t, 1).Client(t)
	for _, mode := range []shardlimit.Mode{shardlimit.Shadow, shardlimit.Off} {
		for fields := range httplimit.NoFields {
			what := fmt.Sprint(mode, " ", int(fields))
			l := limittest.Limiter(t, c, what, shardlimit.Limit{Permits: 2, Per: time.Minute, Mode: mode})
			for range 4 {
				for _, limiter := range []httplimit.Limiter{l, httplimit.All(httplimit.Policy{Name: "l", Limiter: l})} {
					has(t, behind(limiter, httplimit.Options{Fields: fields}).Header(), what, nil)
				}
			}
			said := http.Header{}
			httplimit.Describe(said, fields, httplimit.Policy{Limiter: l}, limittest.Passes(t, l))
			has(t, said, what+" described", nil)
		}
	}
}

// Policies tell the limit that is in force for a key, whatever limit a call brings.
func TestPoliciesTellWhatIsInForce(t *testing.T) {
	f := limittest.InProcess(t, 1).Family(t, shardlimit.PerHour(10))
	later := shardlimit.PerHour(100)
	later.Revision = 5
	limittest.Passes(t, f.LimiterWith("k", later))
	h := behind(httplimit.All(httplimit.Policy{Name: "key", Limiter: f.Limiter("k")}), httplimit.Options{}).Header()
	has(t, h, "in force", map[string]string{"RateLimit-Policy": `"key";q=100;w=3600`, "RateLimit": `"key";r=98;t=3600`})
}

// Answers tell nothing of a limit that is not known and was not asked, as another one refused.
func TestNothingIsToldOfALimitThatIsNotKnown(t *testing.T) {
	f := limittest.InProcess(t, 1).Family(t, shardlimit.PerHour(2))
	all := httplimit.All(httplimit.Policy{Name: "over", Limiter: f.Limiter("over")},
		httplimit.Policy{Name: "used", Limiter: f.Limiter("used")})
	limittest.MustGet(t, f.Limiter("used"), 1)
	limittest.MustGet(t, f.Limiter("over"), 2)
	limittest.Refuses(t, f.Limiter("over"))
	has(t, behind(all, httplimit.Options{}).Header(), "draft", map[string]string{"Retry-After": "3600",
		"RateLimit": `"over";r=0;t=3600`, "RateLimit-Policy": `"over";q=2;w=3600`})
	has(t, behind(all, httplimit.Options{Fields: httplimit.OpenAI}).Header(), "as OpenAI",
		map[string]string{"Retry-After": "3600", "X-RateLimit-Limit-Over": "2", "X-RateLimit-Remaining-Over": "0",
			"X-RateLimit-Reset-Over": "1h0m0s"})
}

// A name that cannot stand in a header is told percent-encoded, there and in the problem; one that
// can is told as it is.
func TestNamesThatNoHeaderCanHave(t *testing.T) {
	limiter := limittest.InProcess(t, 1).Limiter(t,
		shardlimit.Limit{Permits: 5, Per: time.Hour, Mode: shardlimit.Closed})
	for name, want := range map[string]string{"50%": "50%", "größe 5%": "gr%C3%B6%C3%9Fe 5%25",
		"\xff\r\n": "%FF%0D%0A"} {
		for what, l := range map[string]httplimit.Limiter{"one": limiter,
			"policies": httplimit.All(httplimit.Policy{Name: name, Limiter: limiter})} {
			w := behind(l, httplimit.Options{Policy: name})
			has(t, w.Header(), what, map[string]string{"RateLimit": `"` + want + `";r=0;t=15`,
				"RateLimit-Policy": `"` + want + `";q=5;w=3600`, "Retry-After": "15"})
			if !strings.Contains(w.Body.String(), `"policy":"`+want+`","violated-policies":["`+want+`"]`) {
				t.Errorf("%s of %q: %s", what, name, w.Body)
			}
		}
	}
}

// A policy with Permits of its own takes those, whatever the request costs, and keeps them when the
// request is settled, unless nothing was used.
func TestAPolicyWithPermitsOfItsOwn(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		c := f.Client(t)
		requests := limittest.Limiter(t, c, "requests", shardlimit.PerHour(10))
		tokens := limittest.Limiter(t, c, "tokens", shardlimit.PerHour(1000))
		all := httplimit.All(httplimit.Policy{Name: "requests", Limiter: requests, Permits: 1},
			httplimit.Policy{Name: "tokens", Limiter: tokens})
		used := func(wantRequests, wantTokens int64) {
			t.Helper()
			limittest.Uses(t, requests, wantRequests)
			limittest.Uses(t, tokens, wantTokens)
		}
		h := httplimit.New(httplimit.One(all), httplimit.Options{Cost: func(*http.Request) int64 { return 300 }})(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				used(1, 300)
				limittest.Must(t, httplimit.Settle(r.Context(), 120))
			}))
		if w := get(h); w.Code != http.StatusOK {
			t.Errorf("status %d", w.Code)
		}
		used(1, 120)
		d, err := all.Acquire(t.Context(), 500)
		limittest.Must(t, err)
		used(2, 620)
		limittest.Must(t, all.Settle(t.Context(), d, 0))
		used(1, 120)
	})
}

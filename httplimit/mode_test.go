package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/httplimit"
)

var allFields = []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
	"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}

// has checks which fields an answer has.
func has(t *testing.T, h http.Header, what string, want map[string]string) {
	t.Helper()
	for _, field := range allFields {
		if got := h.Get(field); got != want[field] {
			t.Errorf("%s: %s is %q, want %q", what, field, got, want[field])
		}
	}
}

func declared(t *testing.T, c *shardlimit.Client, name string, limit shardlimit.Limit) *shardlimit.Limiter {
	t.Helper()
	l, err := c.Limiter(t.Context(), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A limit that refuses nobody says nothing that clients would heed, before it is over and after,
// and so a polite client is as fast as without it.
func TestALimitThatRefusesNobodyThrottlesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		for _, mode := range []shardlimit.Mode{shardlimit.Shadow, shardlimit.Off} {
			for fields := range httplimit.NoFields {
				l := declared(t, c, fmt.Sprint(mode, fields),
					shardlimit.Limit{Permits: 2, Per: time.Minute, Mode: mode})
				for what, limiter := range map[string]httplimit.Limiter{
					"alone":  l,
					"in All": httplimit.All(httplimit.Policy{Name: "l", Limiter: l}),
				} {
					h := httplimit.New(httplimit.One(limiter), httplimit.Options{Fields: fields})(ok)
					client := http.Client{Transport: &httplimit.Transport{Base: roundTripper(
						func(*http.Request) (*http.Response, error) { return get(h).Result(), nil })}}
					began := time.Now()
					for range 4 {
						answer, err := client.Do(request(t, http.MethodGet, ""))
						if err != nil || answer.StatusCode != http.StatusOK {
							t.Fatalf("%v %s: %v, %v", mode, what, answer, err)
						}
						_ = answer.Body.Close()
						has(t, answer.Header, mode.String()+" "+what, nil)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("%v %s: 4 requests took %s", mode, what, took)
					}
				}
				d, err := l.Allow(t.Context())
				said := http.Header{}
				if httplimit.Describe(said, fields, httplimit.Policy{Limiter: l}, d); err != nil {
					t.Fatal(err)
				}
				has(t, said, mode.String()+" described", nil)
			}
		}
	})
}

// Beside limits in shadow an answer tells of those that are enforced only.
func TestAnswersTellOfEnforcedLimitsOnly(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		watched := declared(t, c, "watched", shardlimit.Limit{Permits: 1, Per: 24 * time.Hour, Mode: shardlimit.Shadow})
		for fields, want := range []map[string]string{
			{"RateLimit": `"strict";r=1;t=3600`, "RateLimit-Policy": `"strict";q=2;w=3600`},
			{"RateLimit-Limit": "2", "RateLimit-Remaining": "1", "RateLimit-Reset": "3600"},
			{"X-RateLimit-Limit": "2", "X-RateLimit-Remaining": "1", "X-RateLimit-Reset": "3600"},
		} {
			strict := declared(t, c, fmt.Sprint("strict", fields), shardlimit.PerHour(2))
			all := httplimit.All(httplimit.Policy{Name: "watched", Limiter: watched},
				httplimit.Policy{Name: "strict", Limiter: strict})
			h := httplimit.New(httplimit.One(all), httplimit.Options{Fields: httplimit.Fields(fields)})(ok)
			has(t, get(h).Header(), "the first", want)
			get(h)
			refused := get(h)
			if fields == 0 {
				has(t, refused.Header(), "refused", map[string]string{"Retry-After": "3600",
					"RateLimit": `"strict";r=0;t=3600`, "RateLimit-Policy": `"strict";q=2;w=3600`})
			}
			if refused.Code != http.StatusTooManyRequests {
				t.Errorf("the third: %d", refused.Code)
			}
		}
	})
}

// Beside one that refuses, a limit whose node is away says nothing of what it has left.
func TestAnswersTellNothingOfALimitThatFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		over := declared(t, connect(), "l", shardlimit.PerDay(1))
		other := declared(t, connect(), "l", shardlimit.PerDay(1))
		if d, err := other.Allow(t.Context()); err != nil || !d.Allowed { // it takes what there is
			t.Fatalf("%+v, %v", d, err)
		}
		servers, err := embedded.StartInMemory(1)
		if err != nil {
			t.Fatal(err)
		}
		away := declared(t, connected(t, servers), "l", shardlimit.PerDay(1))
		servers.Close()
		all := httplimit.All(httplimit.Policy{Name: "away", Limiter: away},
			httplimit.Policy{Name: "over", Limiter: over})
		got := get(httplimit.New(httplimit.One(all), httplimit.Options{})(ok))
		if !strings.Contains(got.Body.String(), `"violated-policies":["over"]`) {
			t.Errorf("the problem is %s", got.Body)
		}
		has(t, got.Header(), "over and away", map[string]string{"Retry-After": "86400", "RateLimit": `"over";r=0;t=86400`,
			"RateLimit-Policy": `"away";q=1;w=86400, "over";q=1;w=86400`})
	})
}

// The last permit under several policies tells when the next is free, as under one.
func TestTheLastPermitUnderSeveralPolicies(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		all := httplimit.All(
			httplimit.Policy{Name: "minute", Limiter: declared(t, c, "m", shardlimit.PerMinute(6))},
			httplimit.Policy{Name: "day", Limiter: declared(t, c, "d", shardlimit.PerDay(100))})
		h := httplimit.New(httplimit.One(all), httplimit.Options{})(ok)
		var got *httptest.ResponseRecorder
		for range 6 {
			time.Sleep(9 * time.Second)
			got = get(h)
		}
		has(t, got.Header(), "the last permit", map[string]string{"RateLimit": `"minute";r=0;t=15, "day";r=94;t=86400`,
			"RateLimit-Policy": `"minute";q=6;w=60, "day";q=100;w=86400`})
	})
}

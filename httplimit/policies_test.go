package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// A policy with Permits of its own takes those, whatever the request costs, and keeps them when the
// request is settled, unless nothing was used.
func TestAPolicyWithPermitsOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		requests := declared(t, c, "requests", shardlimit.Enforced, shardlimit.PerHour(10))
		tokens := declared(t, c, "tokens", shardlimit.Enforced, shardlimit.PerHour(1000))
		all := httplimit.All(httplimit.Policy{Name: "requests", Limiter: requests, Permits: 1},
			httplimit.Policy{Name: "tokens", Limiter: tokens})
		used := func(what string, wantRequests, wantTokens int64) {
			t.Helper()
			r, err := requests.Peek(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n, err := tokens.Peek(t.Context())
			if err != nil || r.Used != wantRequests || n.Used != wantTokens {
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
			httplimit.Policy{Name: "requests", Permits: 1,
				Limiter: declared(t, c, "r", shardlimit.Enforced, shardlimit.PerMinute(60))},
			httplimit.Policy{Name: "tokens",
				Limiter: declared(t, c, "t", shardlimit.Enforced, shardlimit.PerMinute(900))},
			httplimit.Policy{Name: "watched",
				Limiter: declared(t, c, "w", shardlimit.Shadow, shardlimit.PerMinute(1))})
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

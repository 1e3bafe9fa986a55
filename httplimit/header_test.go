package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// A handler that decides by itself tells the same as the middleware.
func TestDescribeIsWhatTheMiddlewareSays(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		c := connect()
		for _, fields := range []httplimit.Fields{httplimit.Draft, httplimit.Triple, httplimit.XTriple,
			httplimit.OpenAI, httplimit.NoFields} {
			limits := [2]*shardlimit.Limiter{}
			for i, name := range []string{"by the middleware ", "by the handler "} {
				var err error
				limits[i], err = c.Limiter(t.Context(), name+string(rune('0'+fields)), shardlimit.PerHour(2))
				if err != nil {
					t.Fatal(err)
				}
			}
			h := httplimit.New(httplimit.One(limits[0]), httplimit.Options{Fields: fields})(http.NotFoundHandler())
			for range 3 { // the last is refused
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				d, err := limits[1].Allow(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				said := http.Header{}
				httplimit.Describe(said, fields, httplimit.Policy{Limiter: limits[1]}, d)
				for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining",
					"RateLimit-Reset", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset",
					"X-RateLimit-Limit-Default", "X-RateLimit-Remaining-Default", "X-RateLimit-Reset-Default",
					"Retry-After"} {
					if got, want := said.Get(name), w.Header().Get(name); got != want {
						t.Errorf("%v: %s is %q, of the middleware %q", fields, name, got, want)
					}
				}
			}
		}
	})
}

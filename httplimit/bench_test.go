package httplimit_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// limited is says with a limit, as a *shardlimit.Limiter has one.
type limited struct{ says }

func (l *limited) Limit() shardlimit.Limit { return shardlimit.PerMinute(100) }

// BenchmarkMiddleware tells what the middleware itself costs beside the decision.
func BenchmarkMiddleware(b *testing.B) {
	for name, d := range map[string]shardlimit.Decision{
		"allowed": {Allowed: true, Granted: 1, Limit: 100, Remaining: 42, ResetAfter: 17 * time.Second},
		"denied":  {Limit: 100, RetryAfter: 17 * time.Second},
	} {
		b.Run(name, func(b *testing.B) {
			nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			h := httplimit.New(httplimit.One(&limited{says{d: d}}), httplimit.Options{})(nothing)
			w := &discard{header: http.Header{}}
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// Package httplimit limits the rate of HTTP requests with shardlimit.
//
// Make one middleware for each route or group of routes that shall have a limit
// of its own, and wrap its handler:
//
//	limit := httplimit.New(httplimit.PerKey(users, apiKey), httplimit.Options{})
//	mux.Handle("POST /orders", limit(orders))
//
// A request that the limit refuses is answered with 429 Too Many Requests and
// Retry-After. Every answer tells what is left, in the fields of the IETF draft
// draft-ietf-httpapi-ratelimit-headers (revision 8 and later):
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=42;t=17
//
// where q is the limit in permits, w its window in seconds, r what remains, and t the seconds until
// all of it is there again or, when the request was refused, until another try can succeed.
//
// What happens while Redis is away is Config.OnOutage of the client: with FailOpen and FailLocal
// requests pass without the RateLimit fields, because nobody knows then what is left of the whole;
// with FailClosed they are answered with 503 Service Unavailable.
package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/shardlimit/shardlimit"
)

// Limiter decides about requests. *shardlimit.Limiter and *shardlimit.Set do.
type Limiter interface {
	AllowN(ctx context.Context, n int64) (shardlimit.Decision, error)
}

// Chooser says which limiter a request belongs to; nil lets the request pass
// unlimited. It is called by many goroutines at the same time.
type Chooser func(*http.Request) Limiter

// Options are what else can be said of a middleware. The zero value is ready for use.
type Options struct {
	// Policy is the name of the limit in the RateLimit fields, printable ASCII;
	// "" means "default".
	Policy string
	// Cost is how many permits a request takes; nil means one.
	Cost func(*http.Request) int64
	// Denied answers a request that was refused, in place of a line of text with
	// status 429. The header has Retry-After and the RateLimit fields already.
	Denied func(http.ResponseWriter, *http.Request, shardlimit.Decision)
	// Failed answers a request about which nothing could be decided, in place of a
	// line of text: 400 if the key or the cost is impossible (ErrInvalidName,
	// ErrInvalidPermits, ErrExceedsLimit), else 503.
	Failed func(http.ResponseWriter, *http.Request, error)
}

// New returns a middleware: a function that wraps a handler. It panics if choose is nil or
// Policy cannot stand in a header, because both are mistakes of the program.
func New(choose Chooser, o Options) func(http.Handler) http.Handler {
	if choose == nil {
		panic("httplimit: no Chooser")
	}
	if o.Policy == "" {
		o.Policy = "default"
	}
	if o.Denied == nil {
		o.Denied = denied
	}
	if o.Failed == nil {
		o.Failed = failed
	}
	m := &middleware{Options: o, choose: choose, name: quoted(o.Policy)}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	Options
	choose Chooser
	name   string // of the policy, as it stands in headers
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	limiter := m.choose(r)
	if limiter == nil {
		next.ServeHTTP(w, r)
		return
	}
	cost := int64(1)
	if m.Cost != nil {
		cost = m.Cost(r)
	}
	d, err := limiter.AllowN(r.Context(), cost)
	if err != nil {
		m.Failed(w, r, err)
		return
	}
	m.describe(w.Header(), limiter, &d)
	if !d.Allowed {
		m.Denied(w, r, d)
		return
	}
	if d.Delay > 0 && !sleep(r.Context(), d.Delay) {
		m.Failed(w, r, context.Cause(r.Context()))
		return
	}
	next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), decisionKey{}, &d)))
}

type decisionKey struct{}

// DecisionOf returns the decision that let a request pass, of the innermost
// middleware of this package, and false if there was none. A handler needs it to
// give permits back that it did not use.
func DecisionOf(ctx context.Context) (shardlimit.Decision, bool) {
	d, ok := ctx.Value(decisionKey{}).(*shardlimit.Decision)
	if !ok {
		return shardlimit.Decision{}, false
	}
	return *d, true
}

func denied(w http.ResponseWriter, _ *http.Request, _ shardlimit.Decision) {
	http.Error(w, "too many requests", http.StatusTooManyRequests)
}

func failed(w http.ResponseWriter, _ *http.Request, err error) {
	for _, impossible := range []error{shardlimit.ErrInvalidName, shardlimit.ErrInvalidPermits,
		shardlimit.ErrExceedsLimit} {
		if errors.Is(err, impossible) {
			http.Error(w, "this request cannot be rated", http.StatusBadRequest)
			return
		}
	}
	http.Error(w, "no decision about this request was possible", http.StatusServiceUnavailable)
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

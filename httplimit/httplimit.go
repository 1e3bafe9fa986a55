// Package httplimit limits the rate of HTTP requests with shardlimit: of those that a server
// handles, and of those that a fleet of clients makes (Transport).
//
// Make one middleware for each route or group of routes that shall have a limit
// of its own, and wrap its handler:
//
//	limit := httplimit.New(httplimit.PerKey(users, apiKey), httplimit.Options{})
//	mux.Handle("POST /orders", limit(orders))
//
// A request that the limit refuses is answered with 429 Too Many Requests and
// Retry-After. Every answer tells what is left, in the fields of the IETF draft
// draft-ietf-httpapi-ratelimit-headers (revision 10, of September 2025; they have this form since
// revision 8):
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=42;t=17
//
// where q is the limit in permits, w its window in seconds, and r what remains. t are the seconds
// until another try can succeed if the request was refused, until a permit is free again if it got
// the last one, and else until all of the limit is there again.
// Options.Fields chooses other fields.
//
// The body of a refused or failed request is application/problem+json (RFC 9457). That of a refused
// one has the type quota-exceeded of the draft, the name of the policy in violated-policies, and
// Decision.Reason in reason.
//
// What happens while Redis is away is Config.OnOutage of the client: with FailOpen and FailLocal
// requests pass without the RateLimit fields, because nobody knows then what is left of the whole;
// with FailClosed they are answered with 503 Service Unavailable. A limit in Shadow or Off, which
// refuses nobody, has no fields either.
//
// Under a LeakyBucket a request waits for its turn. One whose client leaves before gives its
// permits back, and fails.
package httplimit

import (
	"context"
	"net/http"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Limiter decides about requests. *shardlimit.Limiter and *Policies do.
type Limiter interface {
	AllowN(ctx context.Context, n int64) (shardlimit.Decision, error)
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
}

// Chooser says which limiter a request belongs to; nil lets the request pass
// unlimited. It is called by many goroutines at the same time.
type Chooser func(*http.Request) Limiter

// Options are what else can be said of a middleware. The zero value is ready for use.
type Options struct {
	// Policy is the name of the limit in the RateLimit fields; "" means "default". What is not
	// printable ASCII stands there percent-encoded. Policies have names of their own.
	Policy string
	// Cost is how many permits a request takes; nil means one. A request that costs 0 passes
	// without asking; a negative cost is ErrInvalidPermits.
	Cost func(*http.Request) int64
	// Fields are the header fields that tell what is left; the zero value is those of the IETF
	// draft.
	Fields Fields
	// Denied answers a request that was refused, in place of a problem with status 429. The header
	// has Retry-After and the RateLimit fields already.
	Denied func(http.ResponseWriter, *http.Request, shardlimit.Decision)
	// Failed answers a request about which nothing could be decided, in place of a problem with
	// status 400 if the key or the cost is impossible (ErrInvalidName, ErrInvalidPermits,
	// ErrExceedsLimit), 500 if the limit or the participant is (ErrInvalidLimit,
	// ErrInvalidConfig), else 503.
	Failed func(http.ResponseWriter, *http.Request, error)
}

// New returns a middleware: a function that wraps a handler. It panics if choose is nil, or there
// are no such Fields, because these are mistakes of the program.
func New(choose Chooser, o Options) func(http.Handler) http.Handler {
	adapter.MustBe(choose, "httplimit: no Chooser")
	if o.Fields < Draft || o.Fields > NoFields {
		panic("httplimit: there are no such Fields")
	}
	if o.Policy == "" {
		o.Policy = "default"
	}
	m := &middleware{Options: o, choose: choose}
	if m.Failed == nil {
		m.Failed = failed
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

type middleware struct {
	Options
	choose Chooser
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	limiter := m.choose(r)
	limited, cost := !adapter.IsNil(limiter), int64(1)
	if limited && m.Cost != nil {
		cost = m.Cost(r)
	}
	if !limited || cost == 0 {
		next.ServeHTTP(w, r)
		return
	}
	p, err := adapter.Pass(r.Context(), passedKey{}, limiter, cost)
	if err != nil {
		m.Failed(w, r, err)
		return
	}
	d := &p.Decision
	if !d.Allowed {
		m.describe(w.Header(), limiter, d, 0)
		m.refuse(w, r, limiter, d)
		return
	}
	m.describe(w.Header(), limiter, d, d.Delay)
	next.ServeHTTP(w, r.WithContext(p))
}

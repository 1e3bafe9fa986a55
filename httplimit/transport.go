package httplimit

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Waiter waits for permits. *shardlimit.Limiter and *Policies do.
type Waiter interface {
	Acquire(ctx context.Context, n int64) (shardlimit.Decision, error)
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
}

// WaitPerKey has requests wait for permits of the limit that their key has, such as Host. It
// panics if family or key is nil.
func WaitPerKey(family *shardlimit.Family, key Key) func(*http.Request) Waiter {
	adapter.MustBe(family, "httplimit: WaitPerKey needs a Family")
	adapter.MustBe(key, "httplimit: WaitPerKey needs a key")
	return func(r *http.Request) Waiter { return family.Limiter(adapter.Bounded(key(r))) }
}

// Host is the key of an outgoing request: host and port of its URL, in lower case.
func Host(r *http.Request) string { return strings.ToLower(r.URL.Host) }

// Transport is an http.RoundTripper for a fleet of clients: each request waits for a permit, and
// for the end of a pause that its server has asked any of the fleet for.
//
// A server asks for a pause with Retry-After (seconds or a date) in an answer 429 or 503, or with
// RateLimit in any answer that is not from a cache, if nothing remains (r=0) for t seconds;
// Retry-After takes precedence. Requests under way when it asks are not held back. One that got a
// permit before it ran into a pause needs another when that ends, so that those that were held do
// not exceed the limit then.
//
// The permits of a request that was not made are given back: it ran into a pause, or its context
// ended first. One that Base was given counts as made; SettleSent gives back what its answer did
// not cost.
//
// RoundTrip returns the errors of the Waiter, ErrWaitTooLong at once if a pause outlasts the
// deadline of the request, or the cause of its end. The zero value is ready for use; fields must
// not change once it is in use, and it must not be copied. It is safe for concurrent use.
type Transport struct {
	// Base makes the requests; nil means http.DefaultTransport.
	Base http.RoundTripper
	// Permits is what a request waits for; nil, or a nil Waiter, means nothing but pauses. It gets
	// the context of the request, and it must return the same Waiter for a request that is retried.
	Permits func(*http.Request) Waiter
	// Cost is how many permits a request takes; nil means one. One that costs 0 takes none.
	Cost func(*http.Request) int64
	// Key says which requests a pause holds back; nil means Host.
	Key Key
	// Pauses are those of the fleet, of SharedPauses. nil means pauses of this Transport alone, of
	// at most a minute.
	Pauses *Pauses
	// Retries is how often a request is made again after the pause that its own answer asked for;
	// 0 never. 429 is retried with every method, 503 if the method is idempotent or
	// the request has an Idempotency-Key; a body must be known to GetBody. An answer is
	// returned as it is if its pause is longer than the longest, or than the request has time.
	Retries int
	// OnPause hears of every answer that asked for a pause, before it is returned. err is why the
	// fleet may not know of it, or not yet: the request ended before it was told. It is called by
	// many goroutines at the same time.
	OnPause func(r *http.Request, status int, pause time.Duration, err error)
	// MeterProvider receives how long requests were held and which pauses were asked for; nil means
	// the global one. The names are in docs/reference/metrics.md.
	MeterProvider metric.MeterProvider

	begun
}

// begun is what a Transport has from its first request on.
type begun struct {
	once   sync.Once
	base   http.RoundTripper
	key    Key
	pauses *Pauses
	meters *adapter.Meters
}

// RoundTrip makes a request when it may be made. See Transport.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.once.Do(t.begin)
	key := t.key(r)
	for attempt, sent := 0, r; ; attempt++ {
		got, err := t.admit(sent, key)
		if err != nil {
			if sent.Body != nil {
				_ = sent.Body.Close()
			}
			return nil, err
		}
		if got != nil || sent.Context().Value(takenKey{}) != nil { // what an outer request took is its own
			sent = sent.WithContext(context.WithValue(sent.Context(), takenKey{}, got))
		}
		answer, err := t.base.RoundTrip(sent)
		if err != nil {
			return answer, err
		}
		if answer.Request == nil || got != nil { // Base may be a Transport that took nothing
			answer.Request = sent
		}
		pause, asked := t.hear(sent, key, answer)
		if !asked || attempt >= t.Retries || pause > t.pauses.longest || !repeatable(r, answer.StatusCode) {
			return answer, nil
		}
		if at, ok := r.Context().Deadline(); ok && time.Until(at) < pause {
			return answer, nil
		}
		again, err := rewound(r)
		if err != nil {
			return answer, nil //nolint:nilerr // there is an answer, which the caller can have
		}
		drain(answer.Body)
		t.meters.Retried(r.Context())
		sent = again
	}
}

// CloseIdleConnections closes those of Base, for http.Client.CloseIdleConnections.
func (t *Transport) CloseIdleConnections() {
	t.once.Do(t.begin)
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// begin makes what the zero value lacks, when the first request is made.
func (t *Transport) begin() {
	t.base, t.key, t.pauses = t.Base, t.Key, cmp.Or(t.Pauses, NewPauses(time.Minute))
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.key == nil {
		t.key = Host
	}
	t.meters = adapter.NewMeters(t.MeterProvider, "http", "request")
}

// admit returns when the request may be made, and what it took.
func (t *Transport) admit(r *http.Request, key string) (*adapter.Taken, error) {
	w, cost := Waiter(nil), int64(1)
	if t.Permits != nil {
		w = t.Permits(r)
	}
	if t.Cost != nil {
		cost = t.Cost(r)
	}
	return t.meters.Hold(r.Context(), t.pauses, key, w, cost)
}

// hear begins the pause that an answer asks for.
func (t *Transport) hear(r *http.Request, key string, answer *http.Response) (time.Duration, bool) {
	pause, asked := pauseOf(answer, time.Now())
	if !asked {
		return 0, false
	}
	err := t.meters.Pause(r.Context(), t.pauses, key, pause,
		attribute.Int("http.response.status_code", answer.StatusCode))
	if t.OnPause != nil {
		t.OnPause(r, answer.StatusCode, pause, err)
	}
	return pause, true
}

// repeatable reports whether a request may be made again after such an answer.
func repeatable(r *http.Request, status int) bool {
	if status == http.StatusTooManyRequests {
		return true
	}
	if status != http.StatusServiceUnavailable {
		return false
	}
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return r.Header.Get("Idempotency-Key") != ""
}

// rewound is the request once more, with its body from the beginning.
func rewound(r *http.Request) (*http.Request, error) {
	again := r.Clone(r.Context())
	if r.Body == nil || r.Body == http.NoBody {
		return again, nil
	}
	if r.GetBody == nil {
		return nil, http.ErrBodyNotAllowed
	}
	var err error
	again.Body, err = r.GetBody()
	return again, err
}

// drainAtMost is how much of a body is read so that its connection can be used again.
const drainAtMost = 64 << 10

func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, drainAtMost)
	_ = body.Close()
}

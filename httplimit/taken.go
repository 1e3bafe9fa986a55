package httplimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Acquirer is a Waiter whose permits can be settled, as *shardlimit.Limiter and *Policies are.
type Acquirer interface {
	Waiter
	Acquire(ctx context.Context, n int64) (shardlimit.Decision, error)
	Settle(ctx context.Context, d shardlimit.Decision, used int64) error
}

// taken is what an attempt of a Transport took.
type taken struct {
	*adapter.Taken
	connected atomic.Bool // it had a connection, so that something may have been sent
}

type takenKey struct{}

// with is the request with what it took in its context, which notes whether it had a connection.
func (t *taken) with(r *http.Request) *http.Request {
	ctx := r.Context()
	if t.Taken == nil && ctx.Value(takenKey{}) == nil {
		return r
	}
	if t.Taken != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { t.connected.Store(true) }})
	}
	return r.WithContext(context.WithValue(ctx, takenKey{}, t))
}

// failed hears how the request failed, and gives back what it took if surely nothing was sent. The
// error of the last attempt does not say that: when a reused connection breaks, net/http makes some
// requests again, which the server may have read.
func (t *taken) failed(ctx context.Context, err error) {
	if op := (*net.OpError)(nil); !t.connected.Load() && errors.As(err, &op) && op.Op == "dial" {
		t.GiveBack(ctx)
	}
}

// SettleSent makes what the request of an answer took of the Permits of a Transport what the answer
// turned out to cost: 0 for one from a cache, what the server counts for one that tells. It works
// once and takes at most Config.CallTimeout. It does nothing with a request that took nothing or
// whose Waiter is no Acquirer. Errors are those of Limiter.Settle. ctx may be that of the request.
func SettleSent(ctx context.Context, answer *http.Response, used int64) error {
	if answer == nil || answer.Request == nil {
		return nil
	}
	t, ok := answer.Request.Context().Value(takenKey{}).(*taken)
	if !ok {
		return nil
	}
	return t.Settle(ctx, used)
}

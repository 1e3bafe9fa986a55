package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit"
)

const (
	// tellEvery is how often an outage is told of while it lasts.
	tellEvery = 10 * time.Second
	// calmFor is for how long no call may have been without an answer for the outage to be over.
	// Calls for other limits, whose nodes answer, do not end it.
	calmFor = 5 * time.Second
)

// Outage tells a log of calls that no node answered: the cause once, then how many they are, and
// when it is over. So it does of other causes why there is no decision, now and then, and of nodes
// while none answers to /readyz. A nil one tells nothing. It is safe for concurrent use.
type Outage struct {
	log     *slog.Logger
	policy  string // what answers then
	lasts   atomic.Bool
	unready atomic.Bool // no node answered /readyz

	mu    sync.Mutex
	since time.Time // of the first call
	last  time.Time // of the last
	told  time.Time
	calls int64
	wrong time.Time // when another cause was told
}

// NewOutage returns an Outage for calls which that policy answers.
func NewOutage(log *slog.Logger, policy string) *Outage { return &Outage{log: log, policy: policy} }

// heard takes in how a call ended.
func (o *Outage) heard(ctx context.Context, d shardlimit.Decision, err error) {
	switch {
	case o == nil:
	case err == nil && d.Degraded || errors.Is(err, shardlimit.ErrUnavailable):
		o.hit(ctx, time.Now(), err)
	case err == nil && o.lasts.Load():
		o.over(ctx, time.Now())
	case errors.As(err, new(*shardlimit.ConfigError)): // the client tells of it
	case err != nil && statusOf(err) == http.StatusServiceUnavailable && !errors.Is(err, context.Canceled):
		o.failed(ctx, time.Now(), err)
	}
}

// ready takes in whether nodes answer to /readyz. It tells what has changed.
func (o *Outage) ready(ctx context.Context, is bool, nodes []shardlimit.NodeState) {
	if o == nil || o.unready.Swap(!is) == !is {
		return
	}
	if is {
		o.log.InfoContext(ctx, "ready again: a node answers")
		return
	}
	for _, n := range nodes {
		o.log.WarnContext(ctx, "not ready: no node answers", "node", n.Name, "err", oneLine(n.Err))
	}
}

// failed tells why there is no decision, unless a call was told of lately.
func (o *Outage) failed(ctx context.Context, now time.Time, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.wrong) >= tellEvery {
		o.wrong = now
		o.log.WarnContext(ctx, "a call cannot be decided", "err", oneLine(cause))
	}
}

// hit counts a call that no node answered.
func (o *Outage) hit(ctx context.Context, now time.Time, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls++
	o.last = now
	switch {
	case !o.lasts.Load():
		o.lasts.Store(true)
		o.since, o.told = now, now
		attributes := []any{"policy", o.policy}
		if cause != nil {
			attributes = append(attributes, "err", oneLine(cause))
		}
		o.log.WarnContext(ctx, "no node answers a call: the outage policy decides", attributes...)
	case now.Sub(o.told) >= tellEvery:
		o.told = now
		o.log.WarnContext(ctx, "still no node answers", "calls", o.calls, "for", now.Sub(o.since).Round(time.Second))
	}
}

// over ends the outage with a call that a node answered, if there is calm.
func (o *Outage) over(ctx context.Context, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.last) < calmFor || !o.lasts.Swap(false) {
		return
	}
	o.log.InfoContext(ctx, "nodes answer again", "calls", o.calls, "lasted", o.last.Sub(o.since).Round(time.Second))
	o.calls = 0
}

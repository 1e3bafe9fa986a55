package grpclimit

import (
	"cmp"
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/adapter"
)

// Waiter waits for permits. *shardlimit.Limiter and *httplimit.Policies do.
type Waiter = httplimit.Waiter

// WaitPerKey has calls wait for permits of the limit that their key has, such as Target. It panics
// if family or key is nil.
func WaitPerKey(family *shardlimit.Family, key Key) func(context.Context, Call) Waiter {
	adapter.MustBe(family, "grpclimit: WaitPerKey needs a Family")
	adapter.MustBe(key, "grpclimit: WaitPerKey needs a key")
	return func(ctx context.Context, call Call) Waiter { return family.Limiter(adapter.Bounded(key(ctx, call))) }
}

// Client is interceptors for a fleet of clients: each call or stream waits for a permit, and for
// the end of a pause that its server has asked any of the fleet for.
//
// A server asks for a pause with RetryInfo in a status RESOURCE_EXHAUSTED or UNAVAILABLE. Calls
// under way when it asks are not held back. A call that got a permit before it ran into a pause
// needs another when that ends, so that those that were held do not exceed the limit then.
//
// The permits of a call that was not made are given back: it ran into a pause, or its context ended
// first. A call that gRPC was given counts as made, because gRPC does not tell surely that nothing
// was sent.
//
// The interceptors return errors of the Waiter as a status that unwraps to them: DEADLINE_EXCEEDED
// for ErrWaitTooLong, which comes at once also if a pause outlasts the deadline of the call;
// UNAVAILABLE in an outage; and that of the context if it ended. The zero value is ready for use;
// fields must not change once it is in use, and it must not be copied. It is safe for concurrent
// use.
type Client struct {
	// Permits is what a call waits for; nil, or a nil Waiter, means nothing but pauses. It must
	// return the same Waiter for a call that is retried.
	Permits func(context.Context, Call) Waiter
	// Cost is how many permits a call takes; nil means one. One that costs 0 takes none.
	Cost func(context.Context, Call) int64
	// Key says which calls a pause holds back; nil means Target. Pauses of the empty key are not
	// shared.
	Key Key
	// Pauses are those of the fleet, of httplimit.SharedPauses. nil means pauses of this Client
	// alone, of at most a minute.
	Pauses *httplimit.Pauses
	// Retries is how often a unary call is made again after the pause that its own answer asked
	// for with RESOURCE_EXHAUSTED, or the longest pause if that is shorter; 0 never. The answer is
	// returned as it is if the call has not so much time. Streams are not made again. UNAVAILABLE
	// is a matter of a retry policy of gRPC, which knows the calls that may be made twice.
	Retries int
	// OnPause hears of every answer that asked for a pause, before it is returned. err is why the
	// fleet may not know of it, or not yet: the call ended before it was told. It is called by many
	// goroutines at the same time.
	OnPause func(ctx context.Context, call Call, code codes.Code, pause time.Duration, err error)
	// MeterProvider receives how long calls were held and which pauses were asked for; nil means
	// the global one. The names are in docs/reference/metrics.md.
	MeterProvider metric.MeterProvider

	begun
}

// begun is what a Client has from its first call on.
type begun struct {
	once   sync.Once
	key    Key
	pauses *httplimit.Pauses
	meters *adapter.Meters
}

// Unary is a grpc.UnaryClientInterceptor.
func (c *Client) Unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	call := Call{Method: method, Request: req, Target: target(cc)}
	for attempt := 0; ; attempt++ {
		if err := c.admit(ctx, call); err != nil {
			return err
		}
		err := invoker(ctx, method, req, reply, cc, opts...)
		pause, asked := c.hear(ctx, call, err)
		if !asked || attempt >= c.Retries || status.Code(err) != codes.ResourceExhausted {
			return err
		}
		if at, ok := ctx.Deadline(); ok && time.Until(at) < pause {
			return err
		}
		c.meters.Retried(ctx)
	}
}

// Stream is a grpc.StreamClientInterceptor.
func (c *Client) Stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call := Call{Method: method, Target: target(cc)}
	if err := c.admit(ctx, call); err != nil {
		return nil, err
	}
	cs, err := streamer(ctx, desc, cc, method, opts...)
	if err != nil {
		c.hear(ctx, call, err)
		return nil, err
	}
	return &clientStream{ClientStream: cs, client: c, ctx: ctx, call: call}, nil
}

// clientStream is a stream whose end may ask for a pause.
type clientStream struct {
	grpc.ClientStream
	client *Client
	ctx    context.Context
	call   Call
	ended  bool
}

// RecvMsg receives a message, or the status, which counts once: who calls again gets it again.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil && !s.ended {
		s.ended = true
		s.client.hear(s.ctx, s.call, err)
	}
	return err
}

func target(cc *grpc.ClientConn) string {
	if cc == nil { // as in tests of one's own
		return ""
	}
	return cc.Target()
}

// admit returns when the call may be made.
func (c *Client) admit(ctx context.Context, call Call) error {
	c.once.Do(c.begin)
	w, cost := Waiter(nil), int64(1)
	if c.Permits != nil {
		w = c.Permits(ctx, call)
	}
	if c.Cost != nil {
		cost = c.Cost(ctx, call)
	}
	if _, err := c.meters.Hold(ctx, c.pauses, c.key(ctx, call), w, cost); err != nil {
		return &refusal{status: status.New(codeOf(ctx, err), err.Error()), cause: err}
	}
	return nil
}

func (c *Client) begin() {
	c.key, c.pauses = c.Key, cmp.Or(c.Pauses, httplimit.NewPauses(time.Minute))
	if c.key == nil {
		c.key = Target
	}
	c.meters = adapter.NewMeters(c.MeterProvider, "grpc", "call")
}

// statuses are the names of the codes that ask for a pause.
var statuses = map[codes.Code]string{codes.ResourceExhausted: "RESOURCE_EXHAUSTED", codes.Unavailable: "UNAVAILABLE"}

// hear begins the pause that an answer asks for, and tells how long it is.
func (c *Client) hear(ctx context.Context, call Call, answer error) (time.Duration, bool) {
	code, pause := pauseOf(answer)
	if pause <= 0 {
		return 0, false
	}
	key := c.key(ctx, call)
	err := c.meters.Pause(ctx, c.pauses, key, pause, attribute.String("rpc.response.status_code", statuses[code]))
	left, _ := c.pauses.Left(ctx, key)
	if c.OnPause != nil {
		c.OnPause(ctx, call, code, pause, err)
	}
	return left, true
}

// pauseOf is the pause that an answer asks for, 0 if none.
func pauseOf(answer error) (codes.Code, time.Duration) {
	st, ok := status.FromError(answer)
	if !ok || st.Code() != codes.ResourceExhausted && st.Code() != codes.Unavailable {
		return codes.OK, 0
	}
	for _, detail := range st.Proto().GetDetails() {
		info := &errdetails.RetryInfo{}
		if detail.UnmarshalTo(info) == nil && info.GetRetryDelay().CheckValid() == nil {
			return st.Code(), info.GetRetryDelay().AsDuration()
		}
	}
	return st.Code(), 0
}

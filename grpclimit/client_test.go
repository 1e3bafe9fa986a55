package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// asks is a status that asks for a pause.
func asks(t testing.TB, code codes.Code, pause time.Duration) error {
	t.Helper()
	return detailed(t, code, &emptypb.Empty{}, &errdetails.RetryInfo{RetryDelay: durationpb.New(pause)})
}

func detailed(t testing.TB, code codes.Code, details ...protoadapt.MessageV1) error {
	t.Helper()
	st, err := status.New(code, "later").WithDetails(details...)
	limittest.Must(t, err)
	return st.Err()
}

// through makes a call of a client, answered by answer.
func through(ctx context.Context, c *grpclimit.Client, answer func() error) error {
	return c.Unary(ctx, "/s/M", nil, nil, nil,
		func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return answer() })
}

func dialled(c *grpclimit.Client) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithUnaryInterceptor(c.Unary), grpc.WithStreamInterceptor(c.Stream)}
}

func fine() error { return nil }

// waits is a Waiter that counts, and may fail.
type waits struct {
	n     int64
	calls int
	err   error
}

func (w *waits) Acquire(ctx context.Context, n int64) (shardlimit.Decision, error) {
	w.n += n
	w.calls++
	return shardlimit.Decision{Allowed: true, Granted: n}, errors.Join(w.err, context.Cause(ctx))
}

func (w *waits) Settle(context.Context, shardlimit.Decision, int64) error { return nil }

// all has all calls wait for it.
func (w *waits) all(context.Context, grpclimit.Call) grpclimit.Waiter { return w }

func TestCallsWaitForPermits(t *testing.T) {
	w := &waits{}
	var targets []string
	c := &grpclimit.Client{Permits: func(ctx context.Context, call grpclimit.Call) grpclimit.Waiter {
		targets = append(targets, grpclimit.Target(ctx, call)+call.Method)
		return w
	}, Cost: func(_ context.Context, call grpclimit.Call) int64 {
		if call.Request == nil {
			return 10
		}
		return int64(call.Request.(*testpb.SimpleRequest).GetResponseSize())
	}}
	api := serve(t, &service{}, nil, dialled(c)...)
	for _, cost := range []int32{1, 0, 3} {
		if _, err := api.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseSize: cost}); err != nil {
			t.Error(err)
		}
	}
	if answers, _ := talk(t, api, 2); answers != 2 || w.n != 14 || w.calls != 3 {
		t.Errorf("%d answers, %d permits in %d calls", answers, w.n, w.calls)
	}
	if len(targets) != 4 || targets[0] != "passthrough:///test/grpc.testing.TestService/UnaryCall" {
		t.Error(targets)
	}
	for _, nobody := range []grpclimit.Waiter{nil, (*shardlimit.Limiter)(nil)} {
		none := &grpclimit.Client{Permits: func(context.Context, grpclimit.Call) grpclimit.Waiter { return nobody }}
		limittest.Must(t, through(t.Context(), none, fine))
	}
}

// The status of a call that is not made unwraps to why.
func TestCallsThatAreNotMade(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	for _, c := range []struct {
		ctx context.Context
		err error
		is  error
		as  codes.Code
	}{
		{t.Context(), shardlimit.ErrWaitTooLong, shardlimit.ErrWaitTooLong, codes.DeadlineExceeded},
		{t.Context(), shardlimit.ErrUnavailable, shardlimit.ErrUnavailable, codes.Unavailable},
		{canceled, nil, why, codes.Canceled},
	} {
		made := false
		client := &grpclimit.Client{Permits: (&waits{err: c.err}).all}
		err := through(c.ctx, client, func() error { made = true; return nil })
		if !errors.Is(err, c.is) || status.Code(err) != c.as || made {
			t.Errorf("%v, made %v", err, made)
		}
		_, err = client.Stream(c.ctx, nil, nil, "/s/M", nil)
		if !errors.Is(err, c.is) || status.Code(err) != c.as {
			t.Errorf("a stream: %v", err)
		}
	}
}

// A pause that one client is asked for holds back all that share it, calls and streams.
func TestTheFleetPauses(t *testing.T) {
	pauses := httplimit.NewPauses(time.Minute)
	fleet := []*grpclimit.Client{{Pauses: pauses, Key: grpclimit.Method}, {Pauses: pauses, Key: grpclimit.Method}}
	limittest.Must(t, through(t.Context(), fleet[1], fine))
	err := through(t.Context(), fleet[0], func() error { return asks(t, codes.ResourceExhausted, 50*time.Second) })
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	ctx := limittest.Shortly(t, 20*time.Second)
	for i, c := range fleet {
		limittest.ErrorIs(t, through(ctx, c, fine), shardlimit.ErrWaitTooLong, "client", i)
		limittest.ErrorIs(t, limittest.Err(c.Stream(ctx, nil, nil, "/s/M", nil)), shardlimit.ErrWaitTooLong, "stream", i)
	}
}

// A call is made again after the pause that its answer asked for, if there is time for that.
func TestRetriesAfterThePause(t *testing.T) {
	const pause = 30 * time.Second
	for name, c := range map[string]struct {
		client *grpclimit.Client
		code   codes.Code
		calls  int
		time   time.Duration
	}{
		"none":                     {&grpclimit.Client{}, codes.ResourceExhausted, 1, time.Hour},
		"one":                      {&grpclimit.Client{Retries: 1}, codes.ResourceExhausted, 2, time.Hour},
		"until it succeeds":        {&grpclimit.Client{Retries: 9}, codes.ResourceExhausted, 3, time.Hour},
		"UNAVAILABLE":              {&grpclimit.Client{Retries: 9}, codes.Unavailable, 1, time.Hour},
		"a code that asks nothing": {&grpclimit.Client{Retries: 9}, codes.Aborted, 1, time.Hour},
		"too little time":          {&grpclimit.Client{Retries: 3}, codes.ResourceExhausted, 2, pause * 3 / 2},
		"no time":                  {&grpclimit.Client{Retries: 3}, codes.ResourceExhausted, 1, pause / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, paused, began := 0, 0, time.Now()
			c.client.OnPause = func(_ context.Context, _ grpclimit.Call, code codes.Code, d time.Duration, err error) {
				if paused++; code != c.code || d != pause || err != nil {
					t.Errorf("%s: a pause of %s for %s, %v", name, d, code, err)
				}
			}
			err := through(limittest.Shortly(t, c.time), c.client, func() error {
				if calls++; calls == 3 {
					return nil
				}
				return asks(t, c.code, pause)
			})
			if calls != c.calls || status.Code(err) != c.code && calls < 3 || err != nil && calls == 3 {
				t.Errorf("%s: %d calls, %v", name, calls, err)
			}
			if took := time.Since(began); took != time.Duration(calls-1)*pause {
				t.Errorf("%s: %d calls within %s", name, calls, took)
			}
			if (paused > 0) != (c.code != codes.Aborted) {
				t.Errorf("%s: %d pauses", name, paused)
			}
		})
	}
}

// What servers make up is no pause, or one that is bounded.
func TestHostileDetails(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"negative": {asks(t, codes.ResourceExhausted, -time.Hour), false},
		"nothing":  {asks(t, codes.ResourceExhausted, 0), false},
		"no delay": {detailed(t, codes.ResourceExhausted, &errdetails.RetryInfo{}), false},
		"out of range": {detailed(t, codes.ResourceExhausted,
			&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 62}}), false},
		"another status": {errors.New("a reset"), false},
		"for centuries":  {asks(t, codes.ResourceExhausted, 1<<62), true},
	} {
		heard := false
		client := &grpclimit.Client{OnPause: func(context.Context, grpclimit.Call, codes.Code, time.Duration, error) {
			heard = true
		}}
		if err := through(t.Context(), client, func() error { return c.err }); !errors.Is(err, c.err) ||
			heard != c.want {
			t.Errorf("%s: %v, heard %v", name, err, heard)
		}
	}
}

// Each read of a stream that has ended returns its status, which asks for one pause.
func TestAnEndOfAStreamIsOnePause(t *testing.T) {
	heard := 0
	c := &grpclimit.Client{OnPause: func(context.Context, grpclimit.Call, codes.Code, time.Duration, error) { heard++ }}
	end := asks(t, codes.ResourceExhausted, time.Minute)
	api := serve(t, &service{do: func(context.Context) error { return end }}, nil, dialled(c)...)
	stream, err := api.FullDuplexCall(t.Context())
	limittest.Must(t, err)
	for range 2 {
		limittest.ErrorIs(t, limittest.Err(stream.Recv()), end)
	}
	if heard != 1 {
		t.Errorf("%d pauses", heard)
	}
}

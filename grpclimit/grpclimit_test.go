package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// Calls and streams are answered alike. OnFailed hears the cause of those about which nothing could
// be decided, and the client does not.
func TestWhatAnAnswerSays(t *testing.T) {
	denied := func(retry time.Duration) says { return says{d: shardlimit.Decision{RetryAfter: retry}} }
	failed := func(err error) says {
		return says{err: fmt.Errorf("%w: why %w", err, context.DeadlineExceeded)} // of a call, not of the caller
	}
	for name, c := range map[string]struct {
		says     says
		code     codes.Code
		pushback string
	}{
		"allowed":               {says: says{d: shardlimit.Decision{Allowed: true}}},
		"denied":                {denied(time.Second + 1), codes.ResourceExhausted, "1001"},
		"denied without a time": {denied(0), codes.ResourceExhausted, "1"},
		"denied for long":       {denied(1 << 62), codes.ResourceExhausted, "2147483647"},
		"nobody answered":       {failed(shardlimit.ErrUnavailable), codes.Unavailable, ""},
		"no key":                {failed(shardlimit.ErrInvalidName), codes.InvalidArgument, ""},
		"a negative cost":       {failed(shardlimit.ErrInvalidPermits), codes.InvalidArgument, ""},
		"more than there is":    {failed(shardlimit.ErrExceedsLimit), codes.InvalidArgument, "-1"},
		"a plan that cannot be": {failed(shardlimit.ErrInvalidLimit), codes.Internal, ""},
		"a negative weight":     {failed(shardlimit.ErrInvalidConfig), codes.Internal, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var cause error
			s := &service{}
			client := serve(t, s, one(&c.says, grpclimit.Options{
				OnFailed: func(_ context.Context, _ grpclimit.Call, err error) { cause = err }}))
			var trailer metadata.MD
			err := call(t.Context(), client, grpc.Trailer(&trailer))
			if status.Code(err) != c.code || s.served.Load() == 1 != (c.code == codes.OK) {
				t.Errorf("%v, served %d", err, s.served.Load())
			}
			if err != nil && strings.Contains(err.Error(), "why") {
				t.Errorf("the cause is told to the client: %v", err)
			}
			stream, err := client.FullDuplexCall(t.Context())
			limittest.Must(t, err)
			_ = stream.CloseSend()
			if _, err = stream.Recv(); c.code != codes.OK && status.Code(err) != c.code {
				t.Errorf("a stream: %v", err)
			}
			for _, trailer := range []metadata.MD{trailer, stream.Trailer()} {
				if got := strings.Join(trailer["grpc-retry-pushback-ms"], ","); got != c.pushback {
					t.Errorf("the pushback is %q, want %q", got, c.pushback)
				}
			}
			if !errors.Is(cause, c.says.err) {
				t.Errorf("OnFailed heard %v", cause)
			}
		})
	}
}

// The details of a refusal name the policy that refuses. The others keep nothing.
func TestDetailsName(t *testing.T) {
	client := limittest.InProcess(t, 1).Client(t)
	few := limittest.Limiter(t, client, "few", shardlimit.PerHour(1))
	most := limittest.Limiter(t, client, "most", shardlimit.PerHour(100))
	watched := limittest.Limiter(t, client, "watched",
		shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Shadow})
	limittest.Passes(t, few)
	limittest.Passes(t, watched)
	for name, c := range map[string]struct {
		l    grpclimit.Limiter
		o    grpclimit.Options
		want string
	}{
		"named":    {l: few, o: grpclimit.Options{Policy: "per-user"}, want: "per-user"},
		"no UTF-8": {l: httplimit.All(httplimit.Policy{Name: "größe\xff", Limiter: few}), want: "größe\uFFFD"},
		"all": {l: httplimit.All(httplimit.Policy{Name: "m", Limiter: most},
			httplimit.Policy{Name: "f", Limiter: few}),
			want: "f"},
		"beside one in shadow that is over": {l: httplimit.All(httplimit.Policy{Name: "w", Limiter: watched},
			httplimit.Policy{Name: "f", Limiter: few}), want: "f"},
	} {
		retry, quota := details(t, call(t.Context(), serve(t, &service{}, one(c.l, c.o))))
		if retry <= 59*time.Minute || retry > time.Hour {
			t.Errorf("%s: RetryInfo is %s", name, retry)
		}
		if quota.GetSubject() != c.want || quota.GetQuotaId() != c.want || quota.GetQuotaValue() != 1 {
			t.Errorf("%s: QuotaFailure is %v", name, quota)
		}
	}
	limittest.Uses(t, most, 0)
}

// A call takes what it costs. One that costs nothing, or has no limiter, passes without asking.
func TestCosts(t *testing.T) {
	l := &says{} // refuses
	limit := one(l, grpclimit.Options{
		Cost: func(_ context.Context, c grpclimit.Call) int64 { return c.Request.(int64) }})[0]
	for cost, want := range map[int64]codes.Code{7: codes.ResourceExhausted, 0: codes.OK} {
		l.asked = 0
		_, err := limit.Unary(t.Context(), cost, &grpc.UnaryServerInfo{}, served)
		if status.Code(err) != want || l.asked != cost {
			t.Errorf("asked for %d of %d, %v", l.asked, cost, err)
		}
	}
	for _, none := range []grpclimit.Limiter{nil, (*shardlimit.Limiter)(nil)} {
		nobody := grpclimit.New(func(context.Context, grpclimit.Call) grpclimit.Limiter { return none },
			grpclimit.Options{})
		limittest.Must(t, handle(t.Context(), nobody, served))
	}
}

// A call that ends before its turn has the code of its end.
func TestEndedContexts(t *testing.T) {
	limit := one(&says{d: shardlimit.Decision{Allowed: true, Delay: time.Hour}}, grpclimit.Options{})[0]
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("why"))
	late := limittest.Shortly(t, time.Millisecond)
	for want, ctx := range map[codes.Code]context.Context{codes.Canceled: canceled, codes.DeadlineExceeded: late} {
		if _, err := limit.Unary(ctx, nil, &grpc.UnaryServerInfo{}, nil); status.Code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestMistakesOfTheProgramPanic(t *testing.T) {
	var none *shardlimit.Limiter
	family, key := &shardlimit.Family{}, grpclimit.Method
	for name, f := range map[string]func(){
		"no Chooser":    func() { grpclimit.New(nil, grpclimit.Options{}) },
		"One":           func() { grpclimit.One(nil) },
		"One, typed":    func() { grpclimit.One(none) },
		"All":           func() { httplimit.All(httplimit.Policy{Name: "n"}) },
		"PerKey":        func() { grpclimit.PerKey(nil, key) },
		"PerKey, key":   func() { grpclimit.PerKey(family, nil) },
		"WaitPerKey":    func() { grpclimit.WaitPerKey(nil, key) },
		"WaitPerKey, 2": func() { grpclimit.WaitPerKey(family, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// The retry policy of a gRPC client sleeps as long as it is told, and is served.
func TestARetryPolicyHeedsTheTrailer(t *testing.T) {
	l := limittest.InProcess(t, 1).Limiter(t, shardlimit.Limit{Permits: 2, Per: 200 * time.Millisecond})
	patient := serve(t, &service{}, one(l, grpclimit.Options{}), grpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "3600s", "maxBackoff": "3600s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	for range 5 {
		limittest.Must(t, call(t.Context(), patient))
	}
}

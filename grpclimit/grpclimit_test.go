package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/embedded"
	"github.com/shardlimit/shardlimit/grpclimit"
	"github.com/shardlimit/shardlimit/internal/race"
)

func TestWhatAnAnswerSays(t *testing.T) {
	for name, c := range map[string]struct {
		says     says
		code     codes.Code
		pushback string
	}{
		"allowed": {says: says{d: shardlimit.Decision{Allowed: true, Limit: 10}}},
		"denied": {says: says{d: shardlimit.Decision{RetryAfter: time.Second + 1}}, code: 8,
			pushback: "1001"},
		"denied for an instant": {says: says{d: shardlimit.Decision{RetryAfter: 1}}, code: 8, pushback: "1"},
		"denied without a time": {says: says{}, code: 8, pushback: "1"},
		"denied for long": {says: says{d: shardlimit.Decision{RetryAfter: 1 << 62}}, code: 8,
			pushback: "2147483647"},
		"nobody answered": {says: says{err: fmt.Errorf("%w: why %w", shardlimit.ErrUnavailable,
			context.DeadlineExceeded)}, code: codes.Unavailable},
		"no key":          {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrInvalidName)}, code: 3},
		"a negative cost": {says: says{err: shardlimit.ErrInvalidPermits}, code: 3},
		"more than there is": {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrExceedsLimit)}, code: 3,
			pushback: "-1"},
		"the client was closed": {says: says{err: shardlimit.ErrClosed}, code: codes.Unavailable},
		"a plan that cannot be": {says: says{err: fmt.Errorf("%w: why", shardlimit.ErrInvalidLimit)}, code: 13},
	} {
		t.Run(name, func(t *testing.T) {
			var failed error
			o := grpclimit.Options{OnFailed: func(_ context.Context, _ grpclimit.Call, err error) { failed = err }}
			s := &service{}
			client := serve(t, s, one(&c.says, o))
			var trailer metadata.MD
			err := call(t.Context(), client, grpc.Trailer(&trailer))
			if status.Code(err) != c.code || s.served.Load() == 1 != (c.code == codes.OK) {
				t.Errorf("%v, served %d", err, s.served.Load())
			}
			if got := strings.Join(trailer["grpc-retry-pushback-ms"], ","); got != c.pushback {
				t.Errorf("the pushback is %q, want %q", got, c.pushback)
			}
			if err != nil && strings.Contains(err.Error(), "why") {
				t.Errorf("the cause is told to the client: %v", err)
			}
			if !errors.Is(failed, c.says.err) {
				t.Errorf("OnFailed heard %v", failed)
			}
			stream, err := client.FullDuplexCall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = stream.CloseSend()
			if _, err = stream.Recv(); c.code != codes.OK && status.Code(err) != c.code {
				t.Errorf("a stream: %v", err)
			}
			if got := strings.Join(stream.Trailer()["grpc-retry-pushback-ms"], ","); got != c.pushback {
				t.Errorf("the pushback of a stream is %q, want %q", got, c.pushback)
			}
		})
	}
}

func TestDetailsName(t *testing.T) {
	client, _ := open(t)
	few := declare(t, client, "few", shardlimit.PerHour(1))
	most := declare(t, client, "most", shardlimit.PerHour(100))
	watched := declare(t, client, "watched", shardlimit.Limit{Permits: 1, Per: time.Hour, Mode: shardlimit.Shadow})
	for _, l := range []*shardlimit.Limiter{few, watched} {
		if _, err := l.Allow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		l    grpclimit.Limiter
		o    grpclimit.Options
		want string
	}{
		"one":      {l: few, want: "default"},
		"named":    {l: few, o: grpclimit.Options{Policy: "per-user"}, want: "per-user"},
		"no UTF-8": {l: grpclimit.All(grpclimit.Policy{Name: "größe\xff", Limiter: few}), want: "größe\uFFFD"},
		"all": {l: grpclimit.All(grpclimit.Policy{Name: "m", Limiter: most},
			grpclimit.Policy{Name: "f", Limiter: few}),
			want: "f"},
		"beside one in shadow that is over": {l: grpclimit.All(grpclimit.Policy{Name: "w", Limiter: watched},
			grpclimit.Policy{Name: "f", Limiter: few}), want: "f"},
	} {
		api := serve(t, &service{}, one(c.l, c.o))
		err := call(t.Context(), api)
		retry, quota := details(t, err)
		if retry <= 59*time.Minute || retry > time.Hour {
			t.Errorf("%s: RetryInfo is %s", name, retry)
		}
		if quota.GetSubject() != c.want || quota.GetQuotaId() != c.want || quota.GetQuotaValue() != 1 {
			t.Errorf("%s: QuotaFailure is %v", name, quota)
		}
	}
	if st, err := most.Peek(t.Context()); err != nil || st.Used != 0 {
		t.Errorf("%d permits were kept of the limit that did not refuse, %v", st.Used, err)
	}
}

// The retry policy of a gRPC client sleeps as long as it is told, and is served.
func TestARetryPolicyHeedsTheTrailer(t *testing.T) {
	client, _ := open(t)
	l := declare(t, client, "l", shardlimit.Limit{Permits: 2, Per: 200 * time.Millisecond})
	patient := serve(t, &service{}, one(l, grpclimit.Options{}), grpc.WithDefaultServiceConfig(`{"methodConfig": [{
		"name": [{}], "retryPolicy": {"maxAttempts": 2, "initialBackoff": "3600s", "maxBackoff": "3600s",
		"backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}`))
	for range 5 {
		if err := call(t.Context(), patient); err != nil {
			t.Error(err)
		}
	}
}

func TestRefundGivesBackOfEveryLimit(t *testing.T) {
	client, _ := open(t)
	outer, inner := declare(t, client, "o", shardlimit.PerHour(5)), declare(t, client, "i", shardlimit.PerHour(5))
	s := &service{do: func(ctx context.Context) error {
		if d, ok := grpclimit.DecisionOf(ctx); !ok || d.Limit != 5 || d.Remaining != 4 {
			return fmt.Errorf("the decision is %v, %v", d, ok)
		}
		if err := grpclimit.Settle(ctx, 0); err != nil {
			return err
		}
		if err := grpclimit.Settle(ctx, 0); !errors.Is(err, shardlimit.ErrSettled) {
			return fmt.Errorf("a second time: %w", err)
		}
		return nil
	}}
	api := serve(t, s, append(one(outer, grpclimit.Options{}),
		one(grpclimit.All(grpclimit.Policy{Name: "i", Limiter: inner}), grpclimit.Options{})...))
	if err := call(t.Context(), api); err != nil {
		t.Error(err)
	}
	stream, err := api.FullDuplexCall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.CloseSend()
	_, _ = stream.Recv()
	for _, l := range []*shardlimit.Limiter{outer, inner} {
		if st, err := l.Peek(t.Context()); err != nil || st.Used != 0 {
			t.Errorf("%s: %d used, %v", l.Name(), st.Used, err)
		}
	}
	if err := grpclimit.Settle(t.Context(), 0); err != nil {
		t.Errorf("a call that took nothing: %v", err)
	}
}

// What a call took comes back if its client leaves while it waits for its turn.
func TestWhoLeavesBeforeItsTurnUsesNothing(t *testing.T) {
	race.OneProcessor(t)
	synctest.Test(t, func(t *testing.T) {
		servers, err := embedded.StartInMemory(1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(servers.Close)
		l := declare(t, connect(t, servers.Nodes()), "l",
			shardlimit.Limit{Algorithm: shardlimit.LeakyBucket, Permits: 10, Per: time.Hour})
		limit := grpclimit.New(grpclimit.One(l), grpclimit.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for err == nil { // the first has no delay
			_, err = limit.Unary(ctx, nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) {
				return nil, nil
			})
		}
		st, failed := l.Peek(t.Context())
		if failed != nil || st.Used != 1 || status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%d used, %v, %v", st.Used, failed, err)
		}
	})
}

// OnDenied hears of calls that only the mode of the limit let pass.
func TestAShadowedCallIsTold(t *testing.T) {
	var denied []grpclimit.Denial
	l := &says{d: shardlimit.Decision{Allowed: true, Shadowed: true}}
	api := serve(t, &service{}, one(l, grpclimit.Options{Policy: "p",
		OnDenied: func(_ context.Context, _ grpclimit.Call, d grpclimit.Denial) { denied = append(denied, d) }}))
	if err := call(t.Context(), api); err != nil || len(denied) != 1 || !denied[0].Decision.Shadowed ||
		denied[0].Policy != "p" {
		t.Errorf("%v, told of %v", err, denied)
	}
}

func TestCosts(t *testing.T) {
	l := &says{d: shardlimit.Decision{Allowed: true}}
	o := grpclimit.Options{Cost: func(_ context.Context, c grpclimit.Call) int64 {
		r, _ := c.Request.(*testpb.SimpleRequest)
		return int64(r.GetResponseSize())
	}}
	api := serve(t, &service{}, one(l, o))
	for _, cost := range []int32{7, 0} {
		l.asked = 0
		_, err := api.UnaryCall(t.Context(), &testpb.SimpleRequest{ResponseSize: cost})
		if err != nil || l.asked != int64(cost) {
			t.Errorf("asked for %d of %d, %v", l.asked, cost, err)
		}
	}
	nobody := grpclimit.New(func(context.Context, grpclimit.Call) grpclimit.Limiter { return nil },
		grpclimit.Options{})
	if err := call(t.Context(), serve(t, &service{}, []*grpclimit.Interceptor{nobody})); err != nil {
		t.Errorf("without a limiter: %v", err)
	}
}

func TestEndedContexts(t *testing.T) {
	limit := grpclimit.New(grpclimit.One(&says{wait: true}), grpclimit.Options{})
	turn := grpclimit.New(grpclimit.One(&says{d: shardlimit.Decision{Allowed: true, Delay: time.Hour}}),
		grpclimit.Options{})
	for _, i := range []*grpclimit.Interceptor{limit, turn} {
		canceled, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("why"))
		late, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		for want, ctx := range map[codes.Code]context.Context{codes.Canceled: canceled, codes.DeadlineExceeded: late} {
			_, err := i.Unary(ctx, nil, &grpc.UnaryServerInfo{}, nil)
			if status.Code(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
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
		"WaitOne":       func() { grpclimit.WaitOne(none) },
		"All":           func() { grpclimit.All(grpclimit.Policy{Name: "n"}) },
		"PerKey":        func() { grpclimit.PerKey(nil, key) },
		"PerKey, key":   func() { grpclimit.PerKey(family, nil) },
		"WaitPerKey":    func() { grpclimit.WaitPerKey(nil, key) },
		"Join":          func() { grpclimit.Join(key, nil) },
		"FirstOf":       func() { grpclimit.FirstOf(nil) },
		"User":          func() { grpclimit.User(nil) },
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

package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// standalone is a client that no call is sent with.
type standalone struct{ rueidis.Client }

func (standalone) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// reached is a node that is connected, and what calls to it are about.
func reached(tb testing.TB) (*Node, telemetry.Call) {
	tb.Helper()
	env := &Settings{Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: 100 * time.Millisecond}
	var err error
	if env.Telemetry, err = telemetry.New(env.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		nil); err != nil {
		tb.Fatal(err)
	}
	return New(Spec{Name: "n", Client: standalone{}}, env),
		telemetry.Call{Limiter: telemetry.NewLimiter("l", "sliding_log")}
}

// Calls of every kind count: two in a row without an answer keep further ones away. Those that had
// too little time, or whose caller left, do not count, and neither do answers that are refusals.
func TestSilenceKeepsCallsAwayUnlessTheCallerWasInHaste(t *testing.T) {
	const least = 50 * time.Millisecond
	for name, c := range map[string]struct {
		took  time.Duration
		err   error
		leave bool
		want  bool // whether calls may still be sent
	}{
		"silent":          {least, context.DeadlineExceeded, false, false},
		"cancelled late":  {least, context.Canceled, false, false},
		"in haste":        {least - 1, context.DeadlineExceeded, false, true},
		"the caller left": {least, context.Canceled, true, true},
		"answered":        {0, nil, false, true},
		"broken":          {0, errors.New("connection reset"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, about := reached(t)
				for range 2 {
					ctx, call, err := n.Begin(t.Context(), 7, about, least, nil)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(c.took)
					if c.leave {
						call.Excuse()
					}
					call.Finish(ctx, c.err)
				}
				if got := n.Ready(7); got != c.want {
					t.Errorf("calls may be sent: %v", got)
				}
			})
		})
	}
}

// What is not to be sent to a node that is away is not sent, but for one call at a time that looks
// whether it is back, once the pause is over. That call tells of the node even if its caller
// leaves.
func TestOneCallLooksWhetherTheNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, about := reached(t)
		for range 2 {
			ctx, call, err := n.Begin(t.Context(), 7, about, 0, nil)
			if err != nil {
				t.Fatal(err)
			}
			call.Finish(ctx, context.DeadlineExceeded)
		}
		begin := func(probes bool) (*Call, error) {
			_, call, err := n.BeginUnlessAway(t.Context(), 7, about, probes)
			return &call, err
		}
		if _, err := begin(true); !errors.Is(err, ErrAway) {
			t.Errorf("before the pause is over: %v", err)
		}
		time.Sleep(breakerMaxPause)
		if _, err := begin(false); !errors.Is(err, ErrAway) {
			t.Errorf("a call that is not to look: %v", err)
		}
		look, err := begin(true)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := begin(true); !errors.Is(err, ErrAway) {
			t.Errorf("a second look at once: %v", err)
		}
		look.Excuse()
		look.Finish(t.Context(), context.Canceled)
		time.Sleep(2 * breakerMaxPause)
		if look, err = begin(true); err != nil {
			t.Fatal("no look follows one that had no answer: ", err)
		}
		if look.Finish(t.Context(), nil); !n.Ready(7) {
			t.Error("the node has answered, and is away")
		}
	})
}

// A context that has ended sends nothing.
func TestACallThatIsOverIsNotSent(t *testing.T) {
	n, about := reached(t)
	if _, err := n.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := n.Begin(ctx, 7, about, 0, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// standalone is a client that answers nothing, or what it is told to.
type standalone struct {
	rueidis.Client
	answer error
	asked  atomic.Int64
}

func (*standalone) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }
func (*standalone) B() rueidis.Builder       { return rueidis.Builder{} }

func (s *standalone) Do(ctx context.Context, _ rueidis.Completed) rueidis.RedisResult {
	s.asked.Add(1)
	if s.answer != nil {
		return rueidis.NewErrorResult(s.answer)
	}
	<-ctx.Done()
	return rueidis.NewErrorResult(ctx.Err())
}

// about is what calls here are about.
var about = telemetry.Call{Limiter: telemetry.NewLimiter("l", "sliding_log")}

// reached is a node that can be connected.
func reached(tb testing.TB) (*Node, *standalone) {
	tb.Helper()
	env := &Settings{Ctx: tb.Context(), Clock: &clock.Clock{Base: time.Now()}, Log: slog.New(slog.DiscardHandler),
		CallTimeout: 100 * time.Millisecond, Back: func() {}, Spawn: func(task func(context.Context)) bool {
			go task(tb.Context())
			return true
		}}
	var err error
	if env.Telemetry, err = telemetry.New(env.Clock, metricnoop.NewMeterProvider(), tracenoop.NewTracerProvider(),
		nil); err != nil {
		tb.Fatal(err)
	}
	client := &standalone{}
	return New(Spec{Name: "n", Client: client}, env), client
}

// ends has a call to the node end so.
func (n *Node) ends(tb testing.TB, with error) {
	tb.Helper()
	ctx, call, err := n.Begin(tb.Context(), 0, about, nil)
	if err != nil {
		tb.Fatal(err)
	}
	call.Finish(ctx, with)
}

// silent is a node that answers nothing, after a call to it has just ended without an answer.
func silent(tb testing.TB) (*Node, *standalone) {
	tb.Helper()
	n, client := reached(tb)
	n.ends(tb, context.DeadlineExceeded)
	return n, client
}

// A call of any kind without an answer has the node looked at, and the silence of that look keeps
// further calls away. An answer that is a refusal tells nothing.
func TestSilenceOfALookKeepsCallsAway(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		look error // what is said to the look; nil: nothing
		want bool  // whether calls may still be sent
	}{
		"silent":          {err: context.DeadlineExceeded},
		"silent, answers": {err: context.DeadlineExceeded, look: script.ErrForeignState, want: true},
		"silent, broken":  {err: context.DeadlineExceeded, look: errors.New("connection reset")},
		"cancelled late":  {err: context.Canceled},
		"answered":        {want: true},
		"broken":          {err: errors.New("connection reset")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, client := reached(t)
				client.answer = c.look
				n.ends(t, c.err)
				time.Sleep(n.env.CallTimeout + time.Millisecond)
				if got := n.Ready(0); got != c.want {
					t.Errorf("calls may be sent: %v", got)
				}
				synctest.Wait()
			})
		})
	}
}

// Why a node was not called until just now is told although another call was served there
// meanwhile. Long after that it is not.
func TestARefusalIsToldWhileCallsAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := reached(t)
		n.env.Mistake = func(_ string, cause error, _ string) error { return cause }
		known := func(n *Node) error { return n.Refusal(0) }
		n.ends(t, &script.RefusedError{Reason: "NOPERM no permissions"})
		n.serves(false, telemetry.Take) // a call that needs no such right
		for range 2 {
			if err := Mistaken([]*Node{n, n}, known); err == nil {
				t.Errorf("nothing is told, calls may be sent: %t", n.Ready(0))
			}
			n.known(0).breaker.succeeded(n.env.Clock.Now())
		}
		time.Sleep(BreakerMaxPause + time.Millisecond)
		if err := Mistaken([]*Node{n, n}, known); err != nil || n.Refusal(0) != nil {
			t.Errorf("it is called again, and %v, %v", err, n.Refusal(0))
		}
	})
}

// A process whose own timers are late judges nobody: it may be that replies lie there unread. When
// it is punctual again, the silence counts.
func TestAProcessThatIsLateJudgesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _ := silent(t)
		for range 3 * lookTicks {
			time.Sleep(n.env.CallTimeout / lookTicks)
			n.env.Clock.Stop(-n.env.CallTimeout / lookTicks) // every tick takes twice its time
			if !n.Ready(0) {
				t.Fatal("away, as judged by a process that was late itself")
			}
		}
		time.Sleep(n.env.CallTimeout + time.Millisecond)
		if n.Ready(0) {
			t.Error("silent for a call timeout, and calls are sent")
		}
	})
}

// A call that avoids a node that is away is not sent. Once the pause is over, one call at a
// time looks first whether the node is back, and is sent only if it is.
func TestOneCallLooksWhetherTheNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, client := silent(t)
		time.Sleep(n.env.CallTimeout + time.Millisecond)
		begin := func() error {
			return n.UnlessAway(t.Context(), 0, about, func(context.Context, *script.Endpoint) error { return nil })
		}
		if err := begin(); !errors.Is(err, ErrAway) {
			t.Errorf("before the pause is over: %v", err)
		}
		time.Sleep(BreakerMaxPause)
		before := client.asked.Load()
		looked := make(chan error, 1)
		go func() { looked <- begin() }()
		synctest.Wait()
		if err := begin(); !errors.Is(err, ErrAway) || client.asked.Load() != before+1 {
			t.Errorf("a second look at once: %v, %d looks", err, client.asked.Load()-before)
		}
		if err := <-looked; !errors.Is(err, ErrAway) {
			t.Errorf("the node is silent: %v", err)
		}
		time.Sleep(2 * BreakerMaxPause)
		client.answer = script.ErrForeignState
		if err := begin(); err != nil || !n.Ready(0) {
			t.Errorf("the node has answered, and is away: %v", err)
		}
	})
}

// Who asks whether a node serves looks itself while another look is under way: that it has no
// answer yet must not put the node out.
func TestWhoAsksIfANodeServesLooksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, client := silent(t)
		time.Sleep(n.env.CallTimeout + BreakerMaxPause)
		synctest.Wait() // whatever looked before has read its answer
		client.answer = script.ErrForeignState
		if !n.known(0).breaker.claimProbe(n.env.Clock.Now()) {
			t.Fatal("it is not time to look")
		}
		if err := n.Serves(t.Context(), 0); err != nil {
			t.Errorf("the node answers: %v", err)
		}
	})
}

// A context that has ended sends nothing.
func TestACallThatIsOverIsNotSent(t *testing.T) {
	n, _ := reached(t)
	if err := n.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := n.Begin(ctx, 7, about, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

//nolint:bodyclose // the answers of these servers have no bodies
package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// The permits of a request are used once it was made, and come back once if the caller says so.
func TestWhatARequestTookComesBack(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerDay(10))
		lost := errors.New("lost")
		for name, c := range map[string]struct {
			answer *http.Response
			err    error
			used   int64
		}{
			"answered": {answer: answer(200), used: 2},
			"lost":     {err: lost, used: 2},
		} {
			limittest.Must(t, l.Reset(t.Context()))
			transport := &httplimit.Transport{
				Base:    roundTripper(func(*http.Request) (*http.Response, error) { return c.answer, c.err }),
				Permits: func(*http.Request) httplimit.Waiter { return l },
				Cost:    func(*http.Request) int64 { return 2 },
			}
			got, err := transport.RoundTrip(request(t, http.MethodGet, ""))
			limittest.ErrorIs(t, err, c.err, name)
			limittest.Uses(t, l, c.used)
			for range 2 {
				limittest.Must(t, limittest.Once(httplimit.SettleSent(t.Context(), got, 0)))
			}
			if got != nil {
				limittest.Uses(t, l, 0)
			}
		}
	})
}

// The permits of a request come back, too, if it passed another Transport that took none. A request
// that is made with the context of another one has none of its permits.
func TestWhatAnotherTransportTook(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerDay(10))
		inner := &httplimit.Transport{Base: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Request: r}, nil
		})}
		outer := &httplimit.Transport{Base: inner, Permits: func(*http.Request) httplimit.Waiter { return l }}
		got, err := outer.RoundTrip(request(t, http.MethodGet, ""))
		limittest.Must(t, err)
		beside, err := inner.RoundTrip(got.Request)
		limittest.Must(t, err)
		limittest.Must(t, httplimit.SettleSent(t.Context(), beside, 0))
		limittest.Uses(t, l, 1)
		limittest.Must(t, httplimit.SettleSent(t.Context(), got, 0))
		limittest.Uses(t, l, 0)
	})
}

// A request whose context ends, or that runs into a pause, after it has got its permits gives them
// back.
func TestARequestThatIsHeldGivesBackWhatItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pauses := httplimit.NewPauses(time.Minute)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		boom := errors.New("boom")
		w := &lender{got: func(asked int) {
			if asked == 1 { // the server asks for a pause meanwhile
				limittest.Must(t, pauses.Begin(t.Context(), "h", time.Second))
				return
			}
			cancel(boom)
		}}
		transport := &httplimit.Transport{Pauses: pauses, Key: func(*http.Request) string { return "h" },
			Base:    &answers{all: []*http.Response{answer(200)}},
			Permits: func(*http.Request) httplimit.Waiter { return w }}
		r := request(t, http.MethodGet, "").WithContext(ctx)
		_, err := transport.RoundTrip(r)
		if !errors.Is(err, boom) || !errors.Is(err, context.Canceled) || w.asked != 2 || w.back != 2 {
			t.Errorf("%v: %d taken, %d given back", err, w.asked, w.back)
		}
	})
}

// lender is a Waiter that counts.
type lender struct {
	got         func(asked int)
	asked, back int
}

func (l *lender) Acquire(context.Context, int64) (shardlimit.Decision, error) {
	l.asked++
	l.got(l.asked)
	return shardlimit.Decision{Allowed: true, Granted: 1}, nil
}

func (l *lender) Settle(ctx context.Context, _ shardlimit.Decision, _ int64) error {
	l.back++
	return ctx.Err() // the end of the request does not reach it
}

// A request whose time ends while it is not its turn to tell the fleet of a pause is answered then,
// and the fleet hears of the pause nevertheless.
func TestARequestReturnsByItsContextWhenAPauseBegins(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		other := f.Client(t)
		pauses, theirs := shared(t, f.Client(t)), shared(t, other)
		turns, err := other.OpenFamily(t.Context(), "pauses.turns")
		limittest.Must(t, err)
		limittest.Passes(t, turns.Limiter("h")) // it is another's turn
		var told error
		transport := &httplimit.Transport{Pauses: pauses, Key: func(*http.Request) string { return "h" },
			Base:    &answers{all: []*http.Response{answer(429, "Retry-After", "7")}}, //nolint:bodyclose // got is closed
			OnPause: func(_ *http.Request, _ int, _ time.Duration, err error) { told = err }}
		began := time.Now()
		r := request(t, http.MethodGet, "").WithContext(limittest.Shortly(t, 30*time.Millisecond))
		got, err := transport.RoundTrip(r)
		if took := time.Since(began); err != nil || took > 35*time.Millisecond {
			t.Fatalf("%v after %s, its time was 30ms", err, took)
		}
		_ = got.Body.Close()
		if !errors.Is(told, context.DeadlineExceeded) {
			t.Errorf("OnPause heard %v", told)
		}
		time.Sleep(time.Second)
		if left, err := theirs.Left(t.Context(), "h"); err != nil || left < 5*time.Second || left > 7*time.Second {
			t.Errorf("the fleet pauses for another %s, %v", left, err)
		}
	})
}

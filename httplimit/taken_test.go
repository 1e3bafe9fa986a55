//nolint:bodyclose // the answers of these servers have no bodies
package httplimit_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// What a request took comes back if it was not made, and once if the caller says so.
func TestWhatARequestTookComesBack(t *testing.T) {
	limittest.InBubble(t, 1, func(t *testing.T, f limittest.Fleet) {
		l := f.Limiter(t, shardlimit.PerDay(10))
		dial := &net.OpError{Op: "dial", Err: errors.New("refused")}
		read := &net.OpError{Op: "read", Err: errors.New("reset")}
		for name, c := range map[string]struct {
			answer *http.Response
			err    error
			used   int64
		}{
			"answered":      {answer: answer(200), used: 2},
			"no connection": {err: dial},
			"lost":          {err: read, used: 2},
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

// lender is an Acquirer that counts.
type lender struct {
	got         func(asked int)
	asked, back int
}

func (l *lender) WaitN(context.Context, int64) error { panic("it has Acquire") }

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

// net/http makes a GET again whose reused connection broke. A server that has read it and is then
// gone has been asked, so what the request took is used.
func TestARequestThatTheServerReadIsUsedUp(t *testing.T) {
	var requests atomic.Int64
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if requests.Add(1) == 2 {
			_ = web.Listener.Close() // so the next attempt finds nobody
			panic(http.ErrAbortHandler)
		}
	}))
	defer web.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	w := &lender{got: func(int) {}}
	client := http.Client{Transport: &httplimit.Transport{Base: base,
		Permits: func(*http.Request) httplimit.Waiter { return w }}}
	ask := func() error {
		answer, err := client.Get(web.URL)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}
	limittest.Must(t, ask())
	if err := ask(); err == nil || requests.Load() != 2 || w.asked != 2 || w.back != 0 {
		t.Errorf("%v: the server read %d requests, %d were taken and %d given back", err, requests.Load(), w.asked,
			w.back)
	}
	if err := ask(); err == nil || w.asked != 3 || w.back != 1 {
		t.Errorf("nobody is there: %v, %d were taken and %d given back", err, w.asked, w.back)
	}
}

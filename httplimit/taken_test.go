//nolint:bodyclose // the answers of these servers have no bodies
package httplimit_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// What a request took comes back if it was not made, and once if the caller says so.
func TestWhatARequestTookComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		l, err := connect().Limiter(t.Context(), "l", shardlimit.PerDay(10))
		if err != nil {
			t.Fatal(err)
		}
		used := func() int64 {
			st, err := l.Peek(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return st.Used
		}
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
			if err := l.Reset(t.Context()); err != nil {
				t.Fatal(err)
			}
			transport := &httplimit.Transport{
				Base:    roundTripper(func(*http.Request) (*http.Response, error) { return c.answer, c.err }),
				Permits: func(*http.Request) httplimit.Waiter { return l },
				Cost:    func(*http.Request) int64 { return 2 },
			}
			got, err := transport.RoundTrip(request(t, http.MethodGet, ""))
			if !errors.Is(err, c.err) || used() != c.used {
				t.Errorf("%s: %v, %d used, want %d", name, err, used(), c.used)
			}
			for range 2 {
				if err := httplimit.SettleSent(t.Context(), got, 0); err != nil && !errors.Is(err, shardlimit.ErrSettled) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got != nil && used() != 0 {
				t.Errorf("%s: %d used after the refund", name, used())
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
				if err := pauses.Begin(t.Context(), "h", time.Second); err != nil {
					t.Error(err)
				}
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

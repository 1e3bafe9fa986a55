package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/httplimit"
)

// A request whose time ends while it is not its turn to tell the fleet of a pause is answered then,
// and the fleet hears of the pause nevertheless.
func TestARequestReturnsByItsContextWhenAPauseBegins(t *testing.T) {
	inBubble(t, func(t *testing.T, connect func() *shardlimit.Client) {
		other := connect()
		pauses, err := httplimit.SharedPauses(t.Context(), connect(), "pauses", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := httplimit.SharedPauses(t.Context(), other, "pauses", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		turns, err := other.OpenFamily(t.Context(), "pauses.turns")
		if err != nil {
			t.Fatal(err)
		}
		if d, err := turns.Limiter("h").Allow(t.Context()); err != nil || !d.Allowed { // it is another's turn
			t.Fatalf("%+v, %v", d, err)
		}
		var told error
		transport := &httplimit.Transport{Pauses: pauses, Key: func(*http.Request) string { return "h" },
			Base:    &answers{all: []*http.Response{answer(429, "Retry-After", "7")}}, //nolint:bodyclose // got is closed
			OnPause: func(_ *http.Request, _ int, _ time.Duration, err error) { told = err }}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		began := time.Now()
		got, err := transport.RoundTrip(request(t, http.MethodGet, "").WithContext(ctx))
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

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// An outage is told of with its cause once, then as a number, and at its end; calls of other limits
// that are answered meanwhile change nothing.
func TestAnOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		o := NewOutage(slog.New(slog.NewTextHandler(&log, nil)), "closed")
		gone := fmt.Errorf("%w\n%w", shardlimit.ErrUnavailable, errors.New("refused"))
		for range 250 { // 25 s
			o.heard(t.Context(), shardlimit.Decision{}, gone)
			o.heard(t.Context(), shardlimit.Decision{Allowed: true}, nil)
			o.heard(t.Context(), shardlimit.Decision{}, shardlimit.ErrExceedsLimit)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(calmFor)
		for range 3 {
			o.heard(t.Context(), shardlimit.Decision{Allowed: true}, nil)
		}
		o.heard(t.Context(), shardlimit.Decision{Allowed: true, Degraded: true}, nil)
		var got []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(line, " ") // time=
			got = append(got, strings.TrimSpace(line))
		}
		want := []string{
			`level=WARN msg="no node answers a call: the outage policy decides" policy=closed ` +
				`err="shardlimit: no shard answered; refused"`,
			`level=WARN msg="still no node answers" calls=101 for=10s`,
			`level=WARN msg="still no node answers" calls=201 for=20s`,
			`level=INFO msg="nodes answer again" calls=250 lasted=25s`,
			`level=WARN msg="no node answers a call: the outage policy decides" policy=closed`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("it says\n%s\nand should\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		// what else goes wrong is told now and then, and what a caller did is not
		log.Reset()
		time.Sleep(tellEvery)
		for range 150 { // 15 s
			o.heard(t.Context(), shardlimit.Decision{}, errors.New("no words\nfor it"))
			o.heard(t.Context(), shardlimit.Decision{}, context.Canceled)
			o.heard(t.Context(), shardlimit.Decision{}, shardlimit.ErrInvalidPermits)
			time.Sleep(100 * time.Millisecond)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 ||
			strings.Count(got, `msg="a call cannot be decided" err="no words; for it"`) != 2 {
			t.Errorf("it says\n%s", got)
		}
		(*Outage)(nil).heard(t.Context(), shardlimit.Decision{}, gone)
	})
}

// A caller hears in a few words what is wrong, and nothing of addresses and of what servers say.
func TestTheCauseIsForTheLog(t *testing.T) {
	secret := errors.New("dial tcp 10.0.0.1:6379: WRONGPASS")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("%w\n%w", shardlimit.ErrUnavailable, secret), "shardlimit: no shard answered"},
		{fmt.Errorf("%w: %w", shardlimit.ErrClosed, secret), shardlimit.ErrClosed.Error()},
		{fmt.Errorf("%w: %w", context.Canceled, secret), "context canceled"},
		{secret, "the call cannot be decided; the log of the server says why"},
	} {
		w := httptest.NewRecorder()
		refuse(w, statusOf(c.err), c.err)
		if body := w.Body.String(); w.Code != 503 || !strings.Contains(body, `"detail":"`+c.want+`"`) ||
			strings.Contains(body, "10.0.0.1") {
			t.Errorf("%v: %d %s", c.err, w.Code, body)
		}
	}
}

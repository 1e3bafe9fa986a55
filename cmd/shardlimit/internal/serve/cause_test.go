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

// The log tells every ten seconds why calls cannot be decided. It tells nothing of mistakes of
// callers.
func TestTheLogHearsWhatCallersDoNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := New(nil, nil, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 150 { // 15 s
			s.tell(t.Context(), errors.New("no words\nfor it"))
			s.tell(t.Context(), context.Canceled)
			s.tell(t.Context(), shardlimit.ErrInvalidPermits)
			time.Sleep(100 * time.Millisecond)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 ||
			strings.Count(got, `msg="a call cannot be decided" err="no words; for it"`) != 2 {
			t.Errorf("it says\n%s", got)
		}
	})
}

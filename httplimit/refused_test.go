package httplimit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shardlimit/shardlimit"
)

// asked is what RefusedKeys answers.
func asked(t *testing.T, k *RefusedKeys) (said struct {
	Since    time.Time
	Limiters []refusedLimit
}) {
	t.Helper()
	w := httptest.NewRecorder()
	k.ServeHTTP(w, nil)
	err := json.Unmarshal(w.Body.Bytes(), &said)
	if err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%v %s", err, w.Body)
	}
	return said
}

// A refusal is told for one period at least and for two at most, whether there is a log or not. The
// log has a line for each limit and period.
func TestRefusedKeysAreForgotten(t *testing.T) {
	for _, logged := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var log bytes.Buffer
			var refused RefusedKeys
			asked(t, &refused)
			time.Sleep(period/3 + 10*period)
			if logged {
				go refused.Log(ctx, slog.New(slog.NewTextHandler(&log, nil)))
			}
			begin := time.Now()
			for range 3 {
				refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
			}
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "bob"})
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "hosts", Key: "a b"})
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "a limit without keys"})
			const all = "[{hosts 1 [{a b 1 0}]} {users 4 [{ann 3 0} {bob 1 0}]}]"
			for i, want := range []string{all, all, "[]", "[]", "[]"} {
				said := asked(t, &refused)
				if got := fmt.Sprint(said.Limiters); got != want || time.Since(said.Since) >= 2*period ||
					want == all && said.Since.After(begin) {
					t.Errorf("after %d periods: %s since %s", i, got, said.Since)
				}
				time.Sleep(period)
				synctest.Wait()
			}
			cancel()
			synctest.Wait()
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
			time.Sleep(2*period + period/2) // nobody asks meanwhile
			if said := asked(t, &refused); len(said.Limiters) > 0 {
				t.Errorf("%+v", said)
			}
			lines := ""
			if logged {
				lines = `limiter=hosts calls=1 keys="\"a b\" 1"` + "\n" +
					`limiter=users calls=4 keys="\"ann\" 3, \"bob\" 1"` + "\n"
			}
			begins := regexp.MustCompile(`time=\S+ level=INFO msg="most refused keys" `)
			if got := begins.ReplaceAllString(log.String(), ""); got != lines {
				t.Errorf("the log has %s", got)
			}
		})
	}
}

// Limits whose names are made up leave room for one that refuses often.
func TestRefusedKeysKeepSoManyLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused RefusedKeys
		for round := range 3 {
			for i := range 20 * counters {
				refused.Hear(t.Context(), shardlimit.Refusal{Limiter: fmt.Sprint(round, " ", i), Key: "k"})
				refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
			}
			said := asked(t, &refused).Limiters
			if n := len(said); n != min(round+1, 2)*(counters-1)+1 {
				t.Errorf("after %d periods it keeps %d limits", round, n)
			}
			if users := said[len(said)-1]; users.Limiter != "users" || users.Calls < 19*counters {
				t.Errorf("after %d periods: %+v", round, users)
			}
			time.Sleep(period)
		}
	})
}

func TestRefusedKeysAreSafeForConcurrentUse(t *testing.T) {
	var refused RefusedKeys
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "ann"})
				refused.ServeHTTP(httptest.NewRecorder(), nil)
			}
		})
	}
	wg.Wait()
	if said := asked(t, &refused); said.Limiters[0].Calls != 8000 {
		t.Errorf("%+v", said)
	}
}

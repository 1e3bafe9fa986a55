package rival

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

// TestRivalsLimit is what makes the comparison honest: every adapter admits
// what its limit has and denies the next call, and asks the server for each decision. Each key has
// a limit of its own, too, and the limits of all keys are alike.
func TestRivalsLimit(t *testing.T) {
	s := servertest.Start(t)
	for _, r := range All() {
		has, err := r.Needs == "", error(nil)
		if !has {
			has, err = s.Has(t.Context(), r.Needs)
		}
		switch {
		case err != nil:
			t.Fatal(err)
		case has:
			t.Run(r.Name, func(t *testing.T) { testRival(t, s, r) })
		default:
			t.Logf("%s: the server has no %s", r.Name, r.Needs)
		}
	}
}

func testRival(t *testing.T, s *server.Server, r Rival) {
	const permits = 5
	h, err := r.Open(t.Context(), s.Addr(), Limit{Permits: permits, Per: time.Hour})
	limittest.Must(t, err)
	defer h.Close()
	scripts := func() int64 {
		used, err := s.Usage(t.Context())
		limittest.Must(t, err)
		return used.Scripts
	}
	for _, name := range []string{"one", "two"} { // two names do not share a limit
		allow, err := h.Limiter(t.Context(), "rival-test-"+name)
		limittest.Must(t, err)
		before := scripts()
		for i := range permits {
			if ok, err := allow(t.Context()); err != nil || !ok {
				t.Fatalf("%s: call %d of %d: allowed %v, err %v", name, i+1, permits, ok, err)
			}
		}
		if calls := scripts() - before; calls < permits {
			t.Errorf("%s: %d script calls for %d decisions", name, calls, permits)
		}
		if ok, err := allow(t.Context()); err != nil || ok {
			t.Errorf("%s: call %d of %d: allowed %v, err %v", name, permits+1, permits, ok, err)
		}
	}
	if r.Keyless {
		return
	}
	allow, err := h.Keys(t.Context(), "users")
	limittest.Must(t, err)
	for i := range permits + 1 { // the keys take turns
		for _, key := range []string{"user 1", "user 2"} {
			if ok, err := allow(t.Context(), key); err != nil || ok != (i < permits) {
				t.Errorf("%s: call %d: allowed %v, err %v; the limit is %d", key, i+1, ok, err, permits)
			}
		}
	}
}

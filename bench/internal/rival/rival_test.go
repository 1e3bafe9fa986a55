package rival

import (
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestRivalsLimit is what makes the comparison honest: every adapter admits
// what its limit has and denies the next call, and asks the server for each decision.
func TestRivalsLimit(t *testing.T) {
	s := servertest.Start(t)
	for _, r := range All() {
		if canHave(t, s, r) {
			t.Run(r.Name, func(t *testing.T) { testRival(t, s, r) })
		}
	}
}

// canHave reports whether the server has what the rival needs.
func canHave(t *testing.T, s *server.Server, r Rival) bool {
	t.Helper()
	if r.Needs == "" {
		return true
	}
	has, err := s.Has(t.Context(), r.Needs)
	if err != nil {
		t.Fatal(err)
	}
	if !has {
		t.Logf("%s: the server has no %s", r.Name, r.Needs)
	}
	return has
}

func testRival(t *testing.T, s *server.Server, r Rival) {
	const permits = 5
	h, err := r.Open(t.Context(), s.Addr(), Limit{Permits: permits, Per: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, name := range []string{"one", "two"} { // two names do not share a limit
		allow, err := h.Limiter(t.Context(), "rival-test-"+name)
		if err != nil {
			t.Fatal(err)
		}
		before, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range permits {
			if ok, err := allow(t.Context()); err != nil || !ok {
				t.Fatalf("%s: call %d of %d: allowed %v, err %v", name, i+1, permits, ok, err)
			}
		}
		after, err := s.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := allow(t.Context()); err != nil || ok {
			t.Errorf("%s: call %d of %d: allowed %v, err %v", name, permits+1, permits, ok, err)
		}
		if calls := after.Since(before).Scripts; calls < permits {
			t.Errorf("%s: %d script calls for %d decisions", name, calls, permits)
		}
	}
}

// TestRivalsLimitKeys: each key has a limit of its own, and the limits of all keys are alike.
func TestRivalsLimitKeys(t *testing.T) {
	s := servertest.Start(t)
	for _, r := range All() {
		if r.Keyless || !canHave(t, s, r) {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			const permits = 3
			h, err := r.Open(t.Context(), s.Addr(), Limit{Permits: permits, Per: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			allow, err := h.Keys(t.Context(), "users")
			if err != nil {
				t.Fatal(err)
			}
			for i := range permits + 1 { // the keys take turns
				for _, key := range []string{"user 1", "user 2"} {
					if ok, err := allow(t.Context(), key); err != nil || ok != (i < permits) {
						t.Errorf("%s: call %d: allowed %v, err %v; the limit is %d", key, i+1, ok, err, permits)
					}
				}
			}
		})
	}
}

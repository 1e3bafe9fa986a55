package scenario

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

// fakeHandle notes the names it was asked for, and its end.
type fakeHandle struct {
	names  []string
	closed int
}

func (h *fakeHandle) Limiter(_ context.Context, name string) (rival.Allow, error) {
	h.names = append(h.names, name)
	return func(context.Context) (bool, error) { return true, nil }, nil
}

func (h *fakeHandle) Close() { h.closed++ }

func TestCrew(t *testing.T) {
	for _, local := range []bool{false, true} {
		var opened []*fakeHandle
		c, err := openCrew(t.Context(), "a crew", 3, local, func() (rival.Handle, error) {
			opened = append(opened, &fakeHandle{})
			return opened[len(opened)-1], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := 3
		if local {
			want = 1 // for all clients
		}
		if len(opened) != want {
			t.Errorf("local %v: %d handles, want %d", local, len(opened), want)
		}
		allows, err := c.limiters(t.Context(), "limit")
		if err != nil || len(allows) != 3 {
			t.Errorf("%d limiters, err %v; want 3", len(allows), err)
		}
		c.close()
		for _, h := range opened {
			if h.closed != 1 ||
				slices.ContainsFunc(h.names,
					func(name string) bool { return name != "limit-a_crew" && name != "warm-up-a_crew" }) {
				t.Errorf("local %v: closed %d times, names %q", local, h.closed, h.names)
			}
		}
	}
}

func TestCrewThatFailsIsClosed(t *testing.T) {
	boom := errors.New("boom")
	first := &fakeHandle{}
	_, err := openCrew(t.Context(), "x", 2, false, func() (rival.Handle, error) {
		if first.closed == 0 && first.names == nil {
			first.names = []string{}
			return first, nil
		}
		return nil, boom
	})
	if !errors.Is(err, boom) || first.closed != 1 {
		t.Errorf("err %v, the first one closed %d times; want boom and 1", err, first.closed)
	}
}

// slowHandle fails so many times before it works.
type slowHandle struct{ fails, calls int }

func (h *slowHandle) Limiter(context.Context, string) (rival.Allow, error) {
	if h.calls++; h.calls <= h.fails {
		return nil, errors.New("not yet")
	}
	return func(context.Context) (bool, error) { return true, nil }, nil
}

func (h *slowHandle) Close() {}

func TestWarmUpTriesAgain(t *testing.T) {
	for fails, works := range map[int]bool{0: true, warmTries - 1: true, warmTries: false} {
		synctest.Test(t, func(t *testing.T) {
			if err := warmUp(t.Context(), "x", &slowHandle{fails: fails}); (err == nil) != works {
				t.Errorf("after %d failures: err %v", fails, err)
			}
		})
	}
}

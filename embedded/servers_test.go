package embedded

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func start(t *testing.T, n int) *Servers {
	t.Helper()
	s, err := Start(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, s *Servers, i int) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(s.Nodes()[i].Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func do(t *testing.T, c rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return c.Do(ctx, c.B().Arbitrary(args...).Build())
}

func text(t *testing.T, c rueidis.Client, args ...string) string {
	t.Helper()
	s, err := do(t, c, args...).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%q: %v", args, err)
	}
	return s
}

func TestStartValidates(t *testing.T) {
	for _, n := range []int{-1, 0, MaxNodes + 1, math.MaxInt} {
		if s, err := Start(n); err == nil {
			s.Close()
			t.Errorf("%d nodes were started", n)
		} else if !strings.Contains(err.Error(), "1 to 64") {
			t.Errorf("%d nodes: the error does not name the range: %v", n, err)
		}
	}
	if got := start(t, MaxNodes).Len(); got != MaxNodes {
		t.Errorf("%d nodes, want %d", got, MaxNodes)
	}
}

// TestKeysExpire moves the node's clock, so it waits for nothing.
func TestKeysExpire(t *testing.T) {
	s := start(t, 1)
	c := client(t, s, 0)
	text(t, c, "SET", "short", "x", "PX", "60000")
	text(t, c, "SET", "long", "x", "PX", "3600000")
	s.nodes[0].redis.SetTime(time.Now().Add(2 * time.Minute))
	// A command that has nothing to do with the key removes it.
	if n, err := do(t, c, "DBSIZE").AsInt64(); err != nil || n != 1 {
		t.Errorf("%d keys left, %v; want 1", n, err)
	}
}

// Scripts tell a node that lost its memory from one that is new, and one run of a server from the
// next.
func TestUptime(t *testing.T) {
	s := start(t, 1)
	first := text(t, client(t, s, 0), "EVAL", `return redis.call('INFO', 'server')`, "0")
	if !strings.Contains(first, "\r\nuptime_in_seconds:0\r\n") {
		t.Errorf("INFO server in a script: %q", first)
	}
	s.nodes[0].redis.Server().SetPreHook(about(time.Now().Add(-100 * time.Second)))
	for _, test := range []struct {
		back func(int) error
		want string
	}{{s.Resume, "uptime_in_seconds:10"}, {s.Lose, "uptime_in_seconds:0\r"}} {
		if err := errors.Join(s.Stop(0), test.back(0)); err != nil {
			t.Fatal(err)
		}
		if got := text(t, client(t, s, 0), "INFO", "SERVER"); !strings.Contains(got, test.want) || got == first {
			t.Errorf("INFO server has no %q: %q", test.want, got)
		}
	}
	if got := text(t, client(t, s, 0), "INFO", "clients"); !strings.Contains(got, "connected_clients:") {
		t.Errorf("INFO clients: %q", got)
	}
}

func TestClose(t *testing.T) {
	s := start(t, 2)
	if err := s.Stop(1); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	for name, method := range map[string]func(int) error{"Stop": s.Stop, "Resume": s.Resume, "Lose": s.Lose} {
		if err := method(1); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	if c, err := rueidis.NewClient(s.Nodes()[0].Redis); err == nil {
		c.Close()
		t.Error("a closed node accepts connections")
	}
}

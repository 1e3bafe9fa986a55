//go:build unix

package redistest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func ping(ctx context.Context, c rueidis.Client) error {
	return c.Do(ctx, c.B().Ping().Build()).Error()
}

func TestServersAreIndependent(t *testing.T) {
	servers := Servers(t, 3)
	for _, s := range servers {
		set(t, s.Client(t), "addr", s.Addr())
	}
	for _, s := range servers {
		if got := get(t, s.Client(t), "addr"); got != s.Addr() {
			t.Errorf("%s holds %q", s.Addr(), got)
		}
		if !strings.Contains(s.Log(), "Ready to accept connections") {
			t.Errorf("log of %s: %q", s.Addr(), s.Log())
		}
	}
}

func TestPause(t *testing.T) {
	s := Standalone(t)
	c := s.Client(t)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ping(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server answered: %v", err)
	}
	s.Resume()
	if err := ping(t.Context(), c); err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestKillAndRestart(t *testing.T) {
	for _, test := range []struct {
		name string
		opts []Option
		want string
	}{
		{"empty", nil, ""},
		{"persistent", []Option{Persistent()}, "value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Standalone(t, test.opts...)
			addr, pid := s.Addr(), s.Pid()
			set(t, s.Client(t), "key", "value")
			s.Kill()
			s.Kill() // harmless
			if c, err := rueidis.NewClient(s.ClientOption()); err == nil {
				c.Close()
				t.Fatal("a killed server accepts connections")
			}
			s.Restart()
			if s.Addr() != addr || s.Pid() == pid {
				t.Errorf("restarted as %s pid %d, was %s pid %d", s.Addr(), s.Pid(), addr, pid)
			}
			if got := get(t, s.Client(t), "key"); got != test.want {
				t.Errorf("after Restart the key is %q, want %q", got, test.want)
			}
			s.Pause()
			s.Restart()
			if err := ping(t.Context(), s.Client(t)); err != nil {
				t.Errorf("after Restart of a paused server: %v", err)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	s := Standalone(t, Args("--maxmemory", "3mb"))
	c := s.Client(t)
	got, err := c.Do(t.Context(), c.B().ConfigGet().Parameter("maxmemory").Build()).AsStrMap()
	if err != nil || got["maxmemory"] != "3145728" {
		t.Errorf("maxmemory %v, %v", got, err)
	}
}

// running tells whether a process exists; a reaped one does not.
func running(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestNothingIsLeftBehind(t *testing.T) {
	var servers []*Server
	t.Run("use", func(t *testing.T) {
		servers = Servers(t, 3)
		servers[0].Client(t)
		servers[0].Pause()
		servers[1].Kill()
		servers[1].Restart()
		servers = append(servers, Shared(t))
		if Shared(t) != servers[3] {
			t.Error("Shared is not shared")
		}
	})
	for _, s := range servers {
		if running(s.Pid()) {
			t.Errorf("process %d of %s still runs", s.Pid(), s.Addr())
		}
		if _, err := os.Stat(s.dir); err == nil && s.dir != os.TempDir() {
			t.Errorf("directory %s is left", s.dir)
		}
		ports.Lock()
		if ports.taken[s.port] != nil {
			t.Errorf("port %d is still reserved", s.port)
		}
		ports.Unlock()
	}
	if shared.server != nil || shared.users != 0 {
		t.Error("the shared server is still known")
	}
}

func TestTakenPortIsNotUsed(t *testing.T) {
	s := Standalone(t)
	stranger := &Server{tb: t, path: s.path, dir: t.TempDir(), config: s.config, port: s.port}
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	err := stranger.startLocked()
	stranger.stopLocked()
	if err == nil {
		t.Fatal("started on a port in use")
	}
	if !portLost(stranger.Log()) {
		t.Errorf("not seen as a lost port: %v", err)
	}
	if err := ping(t.Context(), s.Client(t)); err != nil {
		t.Errorf("the owner of the port suffered: %v", err)
	}
}

// outcome is a testing.TB that records how a test was ended.
type outcome struct {
	testing.TB
	skipped, failed bool
}

func (o *outcome) Skipf(string, ...any)  { o.skipped = true; runtime.Goexit() }
func (o *outcome) Fatalf(string, ...any) { o.failed = true; runtime.Goexit() }

func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, test := range []struct {
		require         string
		skipped, failed bool
	}{{"", true, false}, {"0", true, false}, {"1", false, true}} {
		t.Setenv("SHARDLIMIT_REQUIRE_REDIS", test.require)
		o := &outcome{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { Standalone(o) })
		wg.Wait()
		if o.skipped != test.skipped || o.failed != test.failed {
			t.Errorf("SHARDLIMIT_REQUIRE_REDIS=%q: skipped %v, failed %v", test.require, o.skipped, o.failed)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Run("odd {name} / with: blanks "+strings.Repeat("x", 100), func(t *testing.T) {
		a, b := Prefix(t), Prefix(t)
		if a == b {
			t.Errorf("the same prefix twice: %q", a)
		}
		if strings.ContainsAny(a, "{} /") || !strings.HasSuffix(a, ":") || len(a) > 80 {
			t.Errorf("prefix %q", a)
		}
	})
}

//go:build unix

package redistest

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

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

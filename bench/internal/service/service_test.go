package service

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
	"github.com/shardlimit/shardlimit/internal/limittest"
)

func TestMain(m *testing.M) {
	ServeIfService()
	// The race detector waits a second when a process ends: much, for processes that live as long.
	_ = os.Setenv("GORACE", os.Getenv("GORACE")+" atexit_sleep_ms=0")
	m.Run()
}

// TestServicesLimitEachKey: every limiter has a limit for each key, in a process of its own, and
// leaves nothing.
func TestServicesLimitEachKey(t *testing.T) {
	redis := servertest.Start(t)
	for _, k := range append(Web(), EnvoyLimit) {
		t.Run(k.Name, func(t *testing.T) {
			p, err := k.Start(t.Context(), Job{Redis: redis.Addr(), Permits: 2, Per: time.Hour})
			limittest.Must(t, err)
			defer p.Close()
			callers, err := p.Dial(2)
			limittest.Must(t, err)
			defer callers.Close()
			for i, key := range []string{"ann", "ann", "ann", "bob"} {
				want := k.Name != Refuse && (i != 2 || k.Name == None)
				ok, err := callers.Allow(t.Context(), i%2, k.Name+key)
				if err != nil || ok != want {
					t.Errorf("request %d, of %s: allowed %v, err %v; want %v", i, key, ok, err, want)
				}
			}
			if cpu, err := p.CPU(); err != nil || cpu < 0 {
				t.Errorf("CPU %v, %v", cpu, err)
			}
			p.Close()
			if _, err := os.Stat(p.folder); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder is left: %v", err)
			}
		})
	}
}

func TestWhatTheOtherServiceIsGiven(t *testing.T) {
	folder := t.TempDir()
	j := Job{Redis: "127.0.0.1:1", Permits: 3, Per: time.Minute, Listen: "127.0.0.1:2"}
	cmd, err := EnvoyProxy("theirs", "program", 7).command(j, folder)
	limittest.Must(t, err)
	for _, want := range []string{"REDIS_URL=127.0.0.1:1", "GRPC_PORT=2", "GRPC_HOST=127.0.0.1",
		"RUNTIME_ROOT=" + folder,
		"LOCAL_CACHE_SIZE_IN_BYTES=7"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("it is not told %s", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "rules", "config", "bench.yaml")); err != nil ||
		string(text) != j.config() || !strings.Contains(string(text), "unit: minute, requests_per_unit: 3") {
		t.Errorf("its configuration is %q, %v", text, err)
	}
}

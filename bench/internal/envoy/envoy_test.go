package envoy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server/servertest"
)

// TestMain lets a service be started, which is this test again.
func TestMain(m *testing.M) {
	ServeIfService()
	m.Run()
}

const config = "domain: " + Domain +
	"\ndescriptors:\n  - key: spent\n    rate_limit: {unit: hour, requests_per_unit: 1}\n"

// TestOurServiceLimits starts the service, spends its limit, and has it end.
func TestOurServiceLimits(t *testing.T) {
	redis := servertest.Start(t)
	p, err := Ours.Start(t.Context(), Job{Redis: redis.Addr(), Config: config}, Probe)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := Dial(p.Addr(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for caller, want := range []bool{true, false, false} {
		got, err := c.Allow(t.Context(), caller, Request("spent", "x"))
		if err != nil || got != want {
			t.Errorf("call %d: %v, %v; want %v", caller, got, err, want)
		}
	}
	if cpu, err := p.CPU(); err != nil || cpu < 0 {
		t.Errorf("CPU %v, %v", cpu, err)
	}
	p.Close()
	if _, err := os.Stat(p.folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

func TestAServiceThatDoesNotServeIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := Ours.Start(ctx, Job{Config: "no: configuration"}, Probe)
	if err == nil || !strings.Contains(err.Error(), Ours.Name) {
		t.Errorf("err %v, want one that names the service", err)
	}
}

func TestWhatTheOtherServiceIsGiven(t *testing.T) {
	folder := t.TempDir()
	cmd, err := Theirs("theirs", "program", 7).command(Job{Redis: "127.0.0.1:1", Config: config, Listen: "127.0.0.1:2"},
		folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"REDIS_URL=127.0.0.1:1", "GRPC_PORT=2", "GRPC_HOST=127.0.0.1",
		"RUNTIME_ROOT=" + folder,
		"LOCAL_CACHE_SIZE_IN_BYTES=7"} {
		if !slices.Contains(cmd.Env, want) {
			t.Errorf("it is not told %s", want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(folder, "rules", "config", "bench.yaml")); err != nil ||
		string(text) != config {
		t.Errorf("its configuration is %q, %v", text, err)
	}
}

// TestBuildThatCannotBeHad: without a proxy it is said to be missing; what was built is used.
func TestBuildThatCannotBeHad(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	folder := filepath.Join(t.TempDir(), "cache", "built")
	if _, err := buildInto(t.Context(), folder); !errors.Is(err, ErrMissing) {
		t.Errorf("err %v, want ErrMissing", err)
	}
	if left, err := os.ReadDir(filepath.Dir(folder)); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := os.MkdirAll(filepath.Join(folder, mainPackage), 0o755); err != nil {
		t.Fatal(err)
	}
	if program, err := buildInto(t.Context(), folder); err != nil || program != filepath.Join(folder, mainPackage) {
		t.Errorf("%q, %v; want what is there", program, err)
	}
}

func TestCPUOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stat")
	for text, want := range map[string]time.Duration{
		"7 (a ) b) S 1 7 7 0 -1 0 0 0 0 0 120 30 5 5 20 0": 1500 * time.Millisecond,
		"7 (a) S 1 7": -1,
		"7 (a) S 1 7 7 0 -1 0 0 0 0 0 x 30 5 5 20 0": -1,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := cpuOf(file); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
}

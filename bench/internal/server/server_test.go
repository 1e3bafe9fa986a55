package server

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

func startForTest(t *testing.T) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("SHARDLIMIT_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s, err := Start(t.Context(), "redis-server")
	limittest.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestUsageCountsScripts(t *testing.T) {
	s := startForTest(t)
	before, err := s.Usage(t.Context())
	limittest.Must(t, err)
	for range 3 {
		eval := s.Admin().B().Eval().Script("return redis.call('TIME')").Numkeys(0).Build()
		limittest.Must(t, s.Admin().Do(t.Context(), eval).Error())
	}
	after, err := s.Usage(t.Context())
	limittest.Must(t, err)
	if got := after.Since(before).Scripts; got != 3 {
		t.Errorf("%d scripts, want 3", got)
	}
	if after.CPU < before.CPU {
		t.Errorf("CPU went from %v to %v", before.CPU, after.CPU)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	s := startForTest(t)
	dir := s.dir
	s.Close()
	if s.cmd.ProcessState == nil {
		t.Error("the process was not waited for")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder %s is still there: %v", dir, err)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(context.Background(), "no-such-redis-server"); err == nil {
		t.Error("no error without a program")
	}
	if _, err := exec.LookPath("redis-server"); err == nil {
		if _, err := Start(t.Context(), "redis-server", "--no-such-option", "1"); err == nil {
			t.Error("no error from a server that ends at once")
		}
	}
}

func TestUsageOfOddInfo(t *testing.T) {
	if _, err := usage(map[string]string{"used_cpu_user": "x", "used_cpu_sys": "0"}); err == nil {
		t.Error("no error from an unreadable CPU time")
	}
	info := parseInfo("# " +
		"CPU\r\nused_cpu_user:1.5\r\nused_cpu_sys:0.5\r\ncmdstat_eval:calls=2,usec=7,usec_per_call=3.5\r\ncmdstat_evalsha:calls=3,usec=9,usec_per_call=3\r\n")
	got, err := usage(info)
	if err != nil || got != (Usage{CPU: 2, Scripts: 5, ScriptMicro: 16}) {
		t.Errorf("usage = %+v, %v", got, err)
	}
}

package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestUsageCountsScripts(t *testing.T) {
	s := startForTest(t)
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		eval := s.Admin().B().Eval().Script("return redis.call('TIME')").Numkeys(0).Build()
		if err := s.Admin().Do(t.Context(), eval).Error(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

// TestLongest has slow commands that are no scripts, and slow scripts that are over.
func TestLongest(t *testing.T) {
	const stall = 400 * time.Millisecond
	s, err := Start(t.Context(), "redis-server", "--enable-debug-command", "yes")
	if err != nil {
		s = startForTest(t) // where everybody may use DEBUG, or there is no server
	} else {
		t.Cleanup(s.Close)
	}
	eval := func(busy time.Duration) error {
		script := fmt.Sprintf("local t = redis.call('TIME') local from = t[1] * 1e6 + t[2] repeat t = "+
			"redis.call('TIME') until t[1] * 1e6 + t[2] >= from + %d return 1", busy.Microseconds())
		return s.Admin().Do(t.Context(), s.Admin().B().Eval().Script(script).Numkeys(0).Build()).Error()
	}
	if took, err := s.Longest(t.Context(), func() error { return eval(stall) }); err != nil || took < stall {
		t.Fatalf("%s, err %v", took, err)
	}
	for busy, least := range map[time.Duration]time.Duration{0: SlowFrom, 5 * time.Millisecond: 5 * time.Millisecond} {
		took, err := s.Longest(t.Context(), func() error {
			sleep := s.Admin().B().Arbitrary("DEBUG", "SLEEP",
				strconv.FormatFloat(stall.Seconds(), 'f', -1, 64)).Build()
			return errors.Join(s.Admin().Do(t.Context(), sleep).Error(), eval(busy/5), eval(busy))
		})
		if err != nil || took < least || took >= stall {
			t.Errorf("scripts of up to %s: longest %s, err %v", busy, took, err)
		}
	}
	boom := errors.New("boom")
	if _, err := s.Longest(t.Context(), func() error { return boom }); !errors.Is(err, boom) {
		t.Errorf("err %v, want boom", err)
	}
}

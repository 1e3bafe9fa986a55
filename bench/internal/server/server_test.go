package server

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// A server counts what it does, and leaves nothing. One that cannot start is an error.
func TestAServersLife(t *testing.T) {
	if _, err := Start(context.Background(), "no-such-redis-server"); err == nil {
		t.Error("no error without a program")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("SHARDLIMIT_REQUIRE_REDIS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if _, err := Start(t.Context(), "redis-server", "--no-such-option", "1"); err == nil {
		t.Error("no error from a server that ends at once")
	}
	s, err := Start(t.Context(), "redis-server")
	limittest.Must(t, err)
	t.Cleanup(s.Close)
	var before Usage // after the first script
	for i := range 4 {
		eval := s.Admin().B().Eval().Script("return redis.call('TIME')").Numkeys(0).Build()
		limittest.Must(t, s.Admin().Do(t.Context(), eval).Error())
		if i == 0 {
			before, err = s.Usage(t.Context())
			limittest.Must(t, err)
		}
	}
	after, err := s.Usage(t.Context())
	if err != nil || after.Since(before).Scripts != 3 || after.CPU < before.CPU {
		t.Errorf("from %+v to %+v with 3 scripts, %v", before, after, err)
	}
	s.Close()
	if s.cmd.ProcessState == nil {
		t.Error("the process was not waited for")
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("folder %s is still there: %v", s.dir, err)
	}
}

func TestUsageOfOddInfo(t *testing.T) {
	if _, err := usage(map[string]string{"used_cpu_user": "x", "used_cpu_sys": "0"}); err == nil {
		t.Error("no error from an unreadable CPU time")
	}
	info := parseInfo("# CPU\r\nused_cpu_user:1.5\r\nused_cpu_sys:0.5\r\n" +
		"cmdstat_eval:calls=2,usec=7,usec_per_call=3.5\r\ncmdstat_evalsha:calls=3,usec=9,usec_per_call=3\r\n")
	got, err := usage(info)
	if err != nil || got != (Usage{CPU: 2, Scripts: 5, ScriptMicro: 16}) {
		t.Errorf("usage = %+v, %v", got, err)
	}
}

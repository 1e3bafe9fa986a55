package redistest

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const crashEnv = "SHARDLIMIT_REDISTEST_CRASH"

// TestServersDieWithACrashedBinary runs this test binary once more, as one that
// starts a server, pauses another and is then killed without any cleanup.
func TestServersDieWithACrashedBinary(t *testing.T) {
	if os.Getenv(crashEnv) != "" {
		servers := Servers(t, 2)
		servers[1].Pause()
		_, _ = os.Stdout.WriteString("pids " + strconv.Itoa(servers[0].Pid()) + " " + strconv.Itoa(servers[1].Pid()) +
			"\n")
		<-t.Context().Done() // never: the parent kills this process
		return
	}
	serverProgram(t)
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), crashEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) == 0 && lines.Scan(); {
		if list, ok := strings.CutPrefix(lines.Text(), "pids "); ok {
			for _, f := range strings.Fields(list) {
				pid, _ := strconv.Atoi(f)
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) != 2 || !running(pids[0]) || !running(pids[1]) {
		t.Errorf("servers %v do not both run", pids)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed, as intended
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, pid := range pids {
		err := poll(ctx, func() error {
			if redisServer(pid) {
				return errors.New("still runs")
			}
			return nil
		})
		if err != nil {
			t.Errorf("server %d: %v", pid, err)
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// redisServer tells whether pid is a redis-server that is not dead: an orphan
// may stay unreaped where the first process of a container reaps nothing.
func redisServer(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), "(redis-server)") && !strings.Contains(string(stat), ") Z")
}

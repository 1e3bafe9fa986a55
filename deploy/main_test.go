package deploy

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/shardlimit/shardlimit/internal/limittest"
)

// tool is the path of the tool. TestMain builds it once, with the flags of CI.
var tool string

func TestMain(m *testing.M) { os.Exit(buildAndTest(m)) }

func buildAndTest(m *testing.M) int {
	dir, err := os.MkdirTemp("", "shardlimit-deploy-")
	defer func() { _ = os.RemoveAll(dir) }()
	tool = filepath.Join(dir, "shardlimit")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", tool, ".")
	build.Dir, build.Env, build.Stderr = "../cmd/shardlimit", append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err == nil {
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the tool:", err)
		return 1
	}
	return m.Run()
}

// started starts serve, and returns what follows a text in the first line that has it. What it
// returns besides ends serve, as the end of the test does.
func started(t *testing.T, serve *exec.Cmd, text string) (found string, end func()) {
	t.Helper()
	says, err := serve.StderrPipe()
	if err == nil {
		err = serve.Start()
	}
	limittest.Must(t, err)
	end = sync.OnceFunc(func() { _ = serve.Process.Signal(syscall.SIGTERM); _ = serve.Wait() })
	t.Cleanup(end)
	for lines := bufio.NewScanner(says); lines.Scan(); {
		if _, found, ok := strings.Cut(lines.Text(), text); ok {
			return found, end
		}
	}
	t.Fatalf("serve does not say %q", text)
	return "", end
}

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

// toolDir is where the tool is built.
var toolDir string

func TestMain(m *testing.M) { os.Exit(inToolDir(m)) }

func inToolDir(m *testing.M) int {
	var err error
	if toolDir, err = os.MkdirTemp("", "shardlimit-deploy-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(toolDir) }()
	return m.Run()
}

// builtTool is the tool, built once as CI has built it before.
var builtTool = sync.OnceValues(func() (string, error) {
	path := filepath.Join(toolDir, "shardlimit")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	build.Dir, build.Env = "../cmd/shardlimit", append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return path, nil
})

func buildTool(t *testing.T) string {
	t.Helper()
	path, err := builtTool()
	limittest.Must(t, err)
	return path
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

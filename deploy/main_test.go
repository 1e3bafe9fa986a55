package deploy

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// after is what follows a text in the next line that has it.
func after(t *testing.T, lines *bufio.Scanner, text string) string {
	t.Helper()
	for lines.Scan() {
		if _, found, ok := strings.Cut(lines.Text(), text); ok {
			return found
		}
	}
	t.Fatalf("serve does not say %q", text)
	return ""
}

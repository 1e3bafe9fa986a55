package deploy

import (
	"fmt"
	"os"
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

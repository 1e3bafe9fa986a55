package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// git runs a command of git in a folder, and returns what it prints. It heeds no configuration but
// its own: the repository may belong to somebody else, as in a container.
func git(dir string, args ...string) (string, error) {
	config, err := gitConfig()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+config, "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output wraps nothing
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}

// gitConfig is the file with the configuration of git.
var gitConfig = sync.OnceValues(func() (string, error) {
	file, err := os.CreateTemp("", "gitconfig")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString("[safe]\n\tdirectory = *\n[user]\n\tname = release\n\temail = release@localhost\n")
	return file.Name(), errors.Join(err, file.Close())
})

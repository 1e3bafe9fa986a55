//go:build unix

package deploy

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// The image is built, and serves: as its user, with nothing that can be written. Docker does so
// where it answers. Elsewhere what the line RUN builds is alone in a root folder, as in the image,
// which takes a test that is root.
func TestTheImageRuns(t *testing.T) {
	t.Parallel()
	in := inDocker
	if exec.CommandContext(t.Context(), "docker", "info").Run() != nil {
		if t.Log("there is no Docker"); os.Geteuid() != 0 {
			t.Skip("needs Docker, or root")
		}
		in = inFolder
	}
	run := in(t, "v9.8.7")
	text, err := run("--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(text), "shardlimit v9.8.7 0123456\n") {
		t.Fatalf("%v: %s", err, text)
	}
	started(t, run("serve", "--embedded", "--limit", "mails=5/s", "--listen", "127.0.0.1:0"),
		"limits declared: 1; serving HTTP on ")
}

// inDocker builds the image, and returns what runs it.
func inDocker(t *testing.T, version string) func(args ...string) *exec.Cmd {
	t.Helper()
	const image = "shardlimit:tested"
	text, err := exec.Command("docker", "build", "-f", "Dockerfile", "-t", image, "--build-arg", "VERSION="+version,
		"--build-arg", "COMMIT=0123456", "..").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return func(args ...string) *exec.Cmd {
		start := []string{"run", "--rm", "--read-only", "--cap-drop", "ALL", image}
		return exec.Command("docker", append(start, args...)...)
	}
}

// inFolder makes the folder that the image is, and returns what runs in it.
func inFolder(t *testing.T, version string) func(args ...string) *exec.Cmd {
	t.Helper()
	const program = "/usr/local/bin/shardlimit"
	file, root := string(content(t, "Dockerfile")), t.TempDir()
	build := regexp.MustCompile(`(?m)^RUN (go build .*)$`).FindStringSubmatch(file)
	if build == nil || !strings.Contains(file, "\nFROM scratch\n") ||
		!strings.Contains(file, "\nENTRYPOINT [\""+program+"\"]\n") {
		t.Fatalf("another image: %s", file)
	}
	// -trimpath would have all packages compiled anew.
	line := strings.NewReplacer("-trimpath ", "", "/out/shardlimit", root+program).Replace(build[1])
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "VERSION="+version, "COMMIT=0123456")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = "/", []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
}

package server

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the server if the benchmark crashes.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

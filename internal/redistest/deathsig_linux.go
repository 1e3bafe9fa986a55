package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent asks the kernel to kill the child when the thread that starts
// it ends; see process.run.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

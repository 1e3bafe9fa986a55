//go:build unix

package redistest

import (
	"os"
	"syscall"
)

func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// StopProcess suspends a process that the test has started (SIGSTOP).
func StopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// ResumeProcess lets it go on.
func ResumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

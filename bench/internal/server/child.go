package server

import (
	"os/exec"
	"runtime"
)

// Child starts a process that is no redis-server with the same care: the kernel
// kills it if the benchmark crashes. The channel is closed when it has ended and
// has been waited for; cmd.ProcessState may be read then. To end it, kill
// cmd.Process.
func Child(cmd *exec.Cmd) (<-chan struct{}, error) {
	dieWithParent(cmd)
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the kernel ties the death signal to the thread
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its verdict is in cmd.ProcessState
		}
	}()
	return done, <-started
}

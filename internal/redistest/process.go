package redistest

import (
	"fmt"
	"os/exec"
	"runtime"
)

// process is a child process that is always waited for.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been reaped
	err  error         // how it ended; valid once done is closed
}

// startProcess runs the program in dir with its output going to log, and env beside
// the environment of this process.
func startProcess(path string, args []string, dir string, env []string, log *tail) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	cmd.Stdout = log
	cmd.Stderr = log
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("redistest: start %s: %w", path, err)
	}
	return p, nil
}

// run starts the child and waits for its end, all on one locked OS thread: the
// kernel sends the parent-death signal when the thread that forked the child
// ends, not the process, so that thread must live at least as long as the child.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the child at once and returns when it is reaped. A stopped child
// dies of it too. Killing one that has ended is harmless: os.Process never
// signals a reaped pid.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

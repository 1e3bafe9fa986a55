package rival

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// jvm is a process that answers commands, one a line, in lines of which the last
// begins with "ok" or "error".
type jvm struct {
	cmd    *exec.Cmd
	done   <-chan struct{}
	mu     sync.Mutex // for one command and its answer
	in     io.WriteCloser
	out    *bufio.Reader
	from   *os.File // under out
	stderr *strings.Builder
}

func startJVM(cmd *exec.Cmd) (*jvm, error) {
	from, to, err := os.Pipe() // not StdoutPipe: Wait would close it under the reader
	if err != nil {
		return nil, err
	}
	defer to.Close()
	j := &jvm{cmd: cmd, from: from, out: bufio.NewReader(from), stderr: &strings.Builder{}}
	cmd.Stdout, cmd.Stderr = to, j.stderr
	cmd.WaitDelay = time.Second
	if j.in, err = cmd.StdinPipe(); err == nil {
		j.done, err = server.Child(cmd)
	}
	if err != nil {
		_ = from.Close()
		return nil, err
	}
	return j, nil
}

// Close ends the JVM and waits for it.
func (j *jvm) Close() {
	_ = j.cmd.Process.Kill()
	<-j.done
	_ = j.from.Close()
}

// ask sends a command and returns the words that follow "ok" in its answer. The
// lines before that go to each. If ctx ends first, the JVM is ended.
func (j *jvm) ask(ctx context.Context, each func(line string) error, format string, a ...any) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = j.cmd.Process.Kill() })()
	command := fmt.Sprintf(format, a...)
	words, err := j.exchange(command, each)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, io.EOF):
		<-j.done
		return nil,
			fmt.Errorf("the JVM ended at %q: %s: %s", command, j.cmd.ProcessState, strings.TrimSpace(j.stderr.String()))
	case err != nil:
		return nil, fmt.Errorf("%q to the JVM: %w", command, err)
	}
	return words, nil
}

func (j *jvm) exchange(command string, each func(line string) error) ([]string, error) {
	if _, err := io.WriteString(j.in, command+"\n"); err != nil {
		return nil, io.EOF // nobody reads any more
	}
	for {
		line, err := j.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		line = strings.TrimSpace(line)
		verdict, rest, _ := strings.Cut(line, " ")
		switch {
		case verdict == "ok":
			return strings.Fields(rest), nil
		case verdict == "error" || each == nil:
			return nil, errors.New(line)
		}
		if err := each(line); err != nil {
			return nil, err
		}
	}
}

// Package fleet loads a limit from several processes at once. The processes are
// this program once more: ServeIfWorker turns it into a worker that takes orders
// on standard input and ends with it, so none outlives its parent, however that ends.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
)

// environment is the variable that makes this program a worker.
const environment = "SHARDLIMIT_BENCH_WORKER"

// replyFile is the descriptor to which a worker writes its replies.
const replyFile = 3

// endTimeout is how long a worker may take to end by itself.
const endTimeout = 3 * time.Second

// Fleet is a number of worker processes. It is for one goroutine.
type Fleet struct {
	workers []*member
}

// member is a worker as its parent sees it.
type member struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	replies *json.Decoder
	done    chan struct{} // closed when the process has been reaped
}

// Start starts n workers. The program must call ServeIfWorker when it starts.
func Start(n int) (*Fleet, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	f := &Fleet{}
	for range n {
		m, err := hire(program)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		f.workers = append(f.workers, m)
	}
	return f, nil
}

func hire(program string) (*member, error) {
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), environment+"=1")
	// Any library may print to the standard output of its process, so replies
	// have a pipe to themselves.
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = []*os.File{in} // which the worker finds as replyFile
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	m := &member{cmd: cmd, orders: orders, replies: strict(out), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(m.done)
	}()
	return m, nil
}

// strict decodes replies and takes nothing else for one.
func strict(in io.Reader) *json.Decoder {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	return d
}

// Processes is how many workers there are.
func (f *Fleet) Processes() int { return len(f.workers) }

// Measure has the workers do the job, lets them warm up, and counts for span.
// before and after are called at the two ends of the counted time, to read
// other counters there; they may be nil. After an error the fleet is of no
// further use, except to Close.
func (f *Fleet) Measure(ctx context.Context, j Job, warm, span time.Duration,
	before, after func() error) (Report, error) {
	stop := context.AfterFunc(ctx, f.kill) // nothing here waits for longer than that
	defer stop()
	report, err := f.measure(ctx, j, warm, span, before, after)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return report, err
}

func (f *Fleet) measure(ctx context.Context, j Job, warm, span time.Duration,
	before, after func() error) (total Report, err error) {
	for i, m := range f.workers {
		own := j.dealt(i, len(f.workers))
		if err := m.order(order{Job: &own}); err != nil {
			return total, err
		}
	}
	for _, m := range f.workers {
		if r, err := m.reply(); err != nil || !r.Ready {
			return total, errors.Join(errors.New("a worker is not ready"), err)
		}
	}
	for _, step := range []struct {
		word string
		wait time.Duration
		then func() error
	}{{wordRun, warm, before}, {wordCount, span, after}, {wordEnd, 0, nil}} {
		for _, m := range f.workers {
			if err := m.order(order{Word: step.word}); err != nil {
				return total, err
			}
		}
		if err := load.Sleep(ctx, step.wait); err != nil {
			return total, err
		}
		if step.then != nil {
			if err := step.then(); err != nil {
				return total, err
			}
		}
	}
	for _, m := range f.workers {
		r, err := m.reply()
		if err != nil || r.Report == nil {
			return total, errors.Join(errors.New("a worker has not reported"), err)
		}
		total.add(*r.Report)
	}
	return total, nil
}

func (m *member) order(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = m.orders.Write(append(text, '\n'))
	return err
}

func (m *member) reply() (reply, error) {
	var r reply
	err := m.replies.Decode(&r)
	switch {
	case err != nil:
	case r.Err != "":
		err = errors.New(r.Err)
	case !r.Ready && r.Report == nil && r.Gathering == nil:
		err = errors.New("an empty reply")
	}
	if err != nil {
		return r, fmt.Errorf("worker %d: %w", m.cmd.Process.Pid, err)
	}
	return r, nil
}

func (f *Fleet) kill() {
	for _, m := range f.workers {
		_ = m.cmd.Process.Kill()
	}
}

// Close ends the workers and waits for them.
func (f *Fleet) Close() {
	for _, m := range f.workers {
		_ = m.orders.Close()
	}
	late := time.AfterFunc(endTimeout, f.kill)
	defer late.Stop()
	for _, m := range f.workers {
		<-m.done
	}
}

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
	"github.com/shardlimit/shardlimit/bench/internal/server"
	"github.com/shardlimit/shardlimit/internal/history"
)

const (
	environment = "SHARDLIMIT_BENCH_WORKER" // the variable that makes this program a worker
	replyFile   = 3                         // the descriptor to which a worker writes its replies
	endTimeout  = 15 * time.Second          // how long a worker may take to end by itself
	lead        = 100 * time.Millisecond    // how long before a crowd begins its processes are told when
)

// Fleet is a number of worker processes. It is for one goroutine.
type Fleet struct {
	workers []*worker
}

// worker is one of them as its parent sees it.
type worker struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	replies *json.Decoder
	done    <-chan struct{} // closed when the process has been reaped
}

// order is a line from the parent: a crowd and, when the worker is ready, when to begin.
type order struct {
	Crowd *Crowd `json:"crowd,omitempty"`
	Begin int64  `json:"begin,omitempty"` // by history.Now
}

// reply is a line from a worker.
type reply struct {
	Ready     bool       `json:"ready,omitempty"`
	Gathering *Gathering `json:"gathering,omitempty"`
	Err       string     `json:"err,omitempty"`
}

// Start starts n workers. The program must call ServeIfWorker when it starts.
func Start(n int) (*Fleet, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workers: %w", err)
	}
	f := &Fleet{}
	for range n {
		w, err := hire(program)
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

func hire(program string) (*worker, error) {
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
	done, err := server.Child(cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	return &worker{cmd: cmd, orders: orders, replies: strict(out), done: done}, nil
}

// strict decodes replies and takes nothing else for one.
func strict(in io.Reader) *json.Decoder {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	return d
}

// Mark is something to do at a time since a crowd began.
type Mark struct {
	At time.Duration
	Do func() error
}

// Gather has the crowd do what it wants, and calls each of the marks at its time
// since the beginning, in order of time. After an error the fleet is of no
// further use, except to Close.
func (f *Fleet) Gather(ctx context.Context, c Crowd, marks ...Mark) (Gathering, error) {
	stop := context.AfterFunc(ctx, f.kill) // nothing here waits for longer than that
	defer stop()
	g, err := f.gather(ctx, c, marks)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return g, err
}

func (f *Fleet) gather(ctx context.Context, c Crowd, marks []Mark) (all Gathering, err error) {
	for i, w := range f.workers {
		own := c.dealt(i, len(f.workers))
		if err := w.order(order{Crowd: &own}); err != nil {
			return all, err
		}
	}
	for _, w := range f.workers {
		if r, err := w.reply(); err != nil || !r.Ready {
			return all, errors.Join(errors.New("a worker is not ready"), err)
		}
	}
	begin := history.Now() + int64(lead)
	for _, w := range f.workers {
		if err := w.order(order{Begin: begin}); err != nil {
			return all, err
		}
	}
	for _, mark := range marks {
		if err := load.Sleep(ctx, time.Duration(begin+int64(mark.At)-history.Now())); err != nil {
			return all, err
		}
		if err := mark.Do(); err != nil {
			return all, err
		}
	}
	all.Trails = make([]Trail, len(c.Members))
	for _, w := range f.workers {
		r, err := w.reply()
		if err != nil || r.Gathering == nil {
			return all, errors.Join(errors.New("a worker has not reported"), err)
		}
		all.add(*r.Gathering)
	}
	return all, nil
}

func (w *worker) order(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = w.orders.Write(append(text, '\n'))
	return err
}

func (w *worker) reply() (reply, error) {
	var r reply
	err := w.replies.Decode(&r)
	switch {
	case err != nil:
	case r.Err != "":
		err = errors.New(r.Err)
	case !r.Ready && r.Gathering == nil:
		err = errors.New("an empty reply")
	}
	if err != nil {
		return r, fmt.Errorf("worker %d: %w", w.cmd.Process.Pid, err)
	}
	return r, nil
}

func (f *Fleet) kill() {
	for _, w := range f.workers {
		_ = w.cmd.Process.Kill()
	}
}

// Close ends the workers and waits for them.
func (f *Fleet) Close() {
	for _, w := range f.workers {
		_ = w.orders.Close()
	}
	late := time.AfterFunc(endTimeout, f.kill)
	defer late.Stop()
	for _, w := range f.workers {
		<-w.done
	}
}

// Package gateway runs a net/http server in a process of its own, with one of several limiters
// before its handler, so that what a limiter costs the server is counted apart from the load.
// The process is this program once more: ServeIfServer turns it into one. It takes orders on
// standard input and ends with it, so it does not outlive its parent.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// environment is the variable that makes this program a server; its value is the Job.
const environment = "SHARDLIMIT_BENCH_GATEWAY"

// replyFile is the descriptor to which a server writes its replies.
const replyFile = 3

// endTimeout is how long a server may take to end by itself.
const endTimeout = 3 * time.Second

// KeyHeader is the field of a request that has its key.
const KeyHeader = "X-API-Key"

// Job is what a server is to do.
type Job struct {
	Variant string        `json:"variant"` // the name of one of Variants
	Redis   string        `json:"redis"`   // address
	Permits int64         `json:"permits"` // of every key
	Per     time.Duration `json:"per"`
}

// reply is the one word that servers say: where they listen, first, and then what they used.
type reply struct {
	Addr string        `json:"addr,omitempty"`
	CPU  time.Duration `json:"cpu,omitempty"`
	Err  string        `json:"err,omitempty"`
}

// Process is a server as its parent sees it. It is for one goroutine.
type Process struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	replies *json.Decoder
	out     *os.File
	done    <-chan struct{} // closed when the process has been reaped
	addr    string
}

// Start starts a server and waits until it listens. The program must call ServeIfServer when it
// starts. When ctx ends the server is killed.
func Start(ctx context.Context, j Job) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.CommandContext(ctx, program)}
	p.cmd.Env = append(os.Environ(), environment+"="+string(text))
	// Any library may print to the standard output, so replies have a pipe to themselves.
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.out, p.replies = out, json.NewDecoder(out)
	p.cmd.ExtraFiles = []*os.File{in} // which the server finds as replyFile
	p.done, err = server.Child(p.cmd)
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start a gateway: %w", err)
	}
	r, err := p.reply()
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("gateway with %q: %w", j.Variant, err)
	}
	p.addr = r.Addr
	return p, nil
}

// Addr is host:port.
func (p *Process) Addr() string { return p.addr }

// CPU is the processor time that the server has used so far, user and system.
func (p *Process) CPU() (time.Duration, error) {
	if _, err := io.WriteString(p.orders, "\n"); err != nil {
		return 0, err
	}
	r, err := p.reply()
	return r.CPU, err
}

func (p *Process) reply() (r reply, err error) {
	err = p.replies.Decode(&r)
	if err == nil && r.Err != "" {
		err = errors.New(r.Err)
	}
	return r, err
}

// Close ends the server.
func (p *Process) Close() {
	_ = p.orders.Close()
	select {
	case <-p.done:
	case <-time.After(endTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = p.out.Close()
}

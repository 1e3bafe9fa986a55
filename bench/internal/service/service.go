// Package service runs services that ask a limiter for each request, each in a process of its own,
// so that what a limiter costs a service is counted apart from the load: net/http servers with a
// limiter before the handler, and rate limit services for Envoy.
package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/quiet"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

const (
	environment  = "SHARDLIMIT_BENCH_SERVICE" // the variable that makes this program a service; its value is the Job
	startTimeout = 15 * time.Second
	endTimeout   = 3 * time.Second
	startTries   = 3 // somebody else can take a port between choice and use
)

// Job is what a service is to do.
type Job struct {
	Kind    string        `json:"kind"`
	Redis   string        `json:"redis"`   // address
	Permits int64         `json:"permits"` // of every key
	Per     time.Duration `json:"per"`     // a minute or an hour
	Listen  string        `json:"listen"`  // its address; Start chooses one
}

// Kind is a service that can be started.
type Kind struct {
	Name string
	// command is the program with its environment, if it is not this one; folder is empty and
	// belongs to the process.
	command func(j Job, folder string) (*exec.Cmd, error)
	serve   func(ctx context.Context, j Job, listener net.Listener) error
	dial    func(addr string, callers int) (Callers, error)
}

// Callers call a service on connections that are kept.
type Callers interface {
	// Allow asks for one permit of the key. Each caller makes one call at a time.
	Allow(ctx context.Context, caller int, key string) (bool, error)
	Close()
}

// Process is a service that runs.
type Process struct {
	kind   Kind
	cmd    *exec.Cmd
	done   <-chan struct{} // closed when the process has been reaped
	addr   string
	folder string
}

// Start starts a service and waits until it answers. The program must call ServeIfService when it
// starts.
func (k Kind) Start(ctx context.Context, j Job) (p *Process, err error) {
	for range startTries {
		if p, err = k.start(ctx, j); err == nil || ctx.Err() != nil {
			break
		}
	}
	return p, err
}

func (k Kind) start(ctx context.Context, j Job) (*Process, error) {
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	j.Kind, j.Listen = k.Name, net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	folder, err := os.MkdirTemp("", "shardlimit-bench-")
	if err != nil {
		return nil, err
	}
	p := &Process{kind: k, addr: j.Listen, folder: folder}
	command := k.command
	if command == nil {
		command = again
	}
	if p.cmd, err = command(j, folder); err == nil {
		p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
		p.done, err = server.Child(p.cmd)
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("start %s: %w", k.Name, err)
	}
	if err := p.await(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	return p, nil
}

// again is this program as a service.
func again(j Job, _ string) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(j)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), environment+"="+string(text))
	return cmd, err
}

// ServeIfService does nothing, unless this process was started as a service: then it serves until
// it is interrupted, and ends the process. Call it before anything else.
func ServeIfService() {
	text := os.Getenv(environment)
	if text == "" {
		return
	}
	if err := serve([]byte(text)); err != nil {
		fmt.Fprintln(os.Stderr, "bench service:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(text []byte) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var j Job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	for _, k := range append(Web(), EnvoyLimit) {
		if k.Name != j.Kind {
			continue
		}
		listener, err := net.Listen("tcp", j.Listen)
		if err != nil {
			return err
		}
		return k.serve(ctx, j, listener)
	}
	return fmt.Errorf("no service is named %q", j.Kind)
}

// await asks until the service answers.
func (p *Process) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	callers, err := p.Dial(1)
	if err != nil {
		return err
	}
	defer callers.Close()
	for {
		_, err := callers.Allow(ctx, 0, "probe")
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("it ended before it answered: %s", p.cmd.ProcessState)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Dial makes the connections of so many callers.
func (p *Process) Dial(callers int) (Callers, error) { return p.kind.dial(p.addr, callers) }

// CPU is the processor time that the service has used so far, user and system. Only Linux tells, in
// hundredths of a second.
func (p *Process) CPU() (time.Duration, error) {
	ticks, _, err := quiet.Times(quiet.Proc, strconv.Itoa(p.cmd.Process.Pid))
	return time.Duration(ticks) * 10 * time.Millisecond, err
}

// Close ends the service.
func (p *Process) Close() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(endTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	_ = os.RemoveAll(p.folder)
}

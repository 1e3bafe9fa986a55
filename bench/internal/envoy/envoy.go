// Package envoy runs rate limit services for Envoy, each in a process of its own: ours, and
// envoyproxy/ratelimit as its module has it. Both read the same configuration and count in the same
// Redis.
package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// ErrMissing means that the other service cannot be had or run on this machine. The text says why.
var ErrMissing = errors.New("envoyproxy/ratelimit cannot be had")

const (
	startTimeout = 15 * time.Second
	endTimeout   = 3 * time.Second
	startTries   = 3 // somebody else can take a port between choice and use
)

// Job is what a service is to do.
type Job struct {
	Redis  string `json:"redis"`  // address
	Config string `json:"config"` // YAML
	Listen string `json:"listen"` // address of its gRPC server; Start chooses one
}

// Kind is a service that can be started.
type Kind struct {
	Name string
	// command is the program with its environment; folder is empty and belongs to the process.
	command func(j Job, folder string) (*exec.Cmd, error)
}

// Process is a service that runs.
type Process struct {
	cmd    *exec.Cmd
	done   <-chan struct{} // closed when the process has been reaped
	addr   string
	folder string
}

// Start starts a service and waits until it answers. The program must call ServeIfService when it
// starts. probe reports whether the service at that address answers; it is asked until it does.
func (k Kind) Start(ctx context.Context, j Job, probe func(ctx context.Context, addr string) error) (*Process, error) {
	var p *Process
	var err error
	for range startTries {
		if p, err = k.start(ctx, j, probe); err == nil || ctx.Err() != nil {
			break
		}
	}
	return p, err
}

func (k Kind) start(ctx context.Context, j Job, probe func(ctx context.Context, addr string) error) (*Process, error) {
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	j.Listen = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	folder, err := os.MkdirTemp("", "shardlimit-bench-")
	if err != nil {
		return nil, err
	}
	p := &Process{addr: j.Listen, folder: folder}
	if p.cmd, err = k.command(j, folder); err == nil {
		p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
		p.done, err = server.Child(p.cmd)
	}
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, fmt.Errorf("start %s: %w", k.Name, err)
	}
	if err := p.await(ctx, probe); err != nil {
		p.Close()
		return nil, fmt.Errorf("%s: %w", k.Name, err)
	}
	return p, nil
}

// await asks until the service answers.
func (p *Process) await(ctx context.Context, probe func(ctx context.Context, addr string) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := probe(ctx, p.addr)
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

// Addr is host:port of the gRPC server.
func (p *Process) Addr() string { return p.addr }

// CPU is the processor time that the service has used so far, user and system. Only Linux tells.
func (p *Process) CPU() (time.Duration, error) {
	return cpuOf(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
}

// cpuOf reads the times of a process, which Linux counts in hundredths of a second.
func cpuOf(file string) (time.Duration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // a name may have spaces
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("%s has %d fields", file, len(fields))
	}
	var sum time.Duration
	for _, field := range []string{fields[user], fields[system]} {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * 10 * time.Millisecond
	}
	return sum, nil
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

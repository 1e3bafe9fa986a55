// Package server starts redis-server processes for a benchmark and reads their
// own accounts of what they did.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	startTimeout = 10 * time.Second
	// a node that is held to a small part of a processor may answer late, on a machine that stalls
	adminTimeout = time.Minute
	startTries   = 5 // somebody else can take the port between choice and use
)

// Server is one redis-server process on a port of its own, without persistence.
type Server struct {
	addr  string
	dir   string
	cmd   *exec.Cmd
	done  <-chan struct{} // closed when the process has been reaped
	admin rueidis.Client
}

// Start starts the program (a path, or a name on the PATH) and waits until it
// serves. Further arguments are appended to its command line.
func Start(ctx context.Context, program string, args ...string) (*Server, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("find redis-server: %w", err)
	}
	for range startTries {
		var s *Server
		if s, err = start(ctx, path, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func start(ctx context.Context, path string, args []string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shardlimit-bench-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		dir:  dir,
	}
	s.cmd = exec.Command(path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)...)
	if s.done, err = Child(s.cmd); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	if err := s.await(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// await connects once our own process answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.connect(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s: %w", s.addr, errors.Join(ctx.Err(), err))
		case <-s.done:
			return fmt.Errorf("redis-server on %s ended at once: %s", s.addr, s.cmd.ProcessState)
		case <-tick.C:
		}
	}
}

func (s *Server) connect(ctx context.Context) error {
	option := Option(s.addr)
	option.ConnWriteTimeout = adminTimeout
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	s.admin = client
	info, err := s.Info(ctx)
	if err == nil && info["process_id"] != strconv.Itoa(s.cmd.Process.Pid) {
		err = fmt.Errorf("%s is served by another process", s.addr)
	}
	if err != nil {
		client.Close()
		s.admin = nil
	}
	return err
}

// Option is how every rueidis client of the benchmarks connects: pipelining on, client-side caching
// off, nothing re-sent. Several addresses, with a comma between, are a cluster's.
func Option(addr string) rueidis.ClientOption {
	addrs := strings.Split(addr, ",")
	return rueidis.ClientOption{
		InitAddress:       addrs,
		ForceSingleClient: len(addrs) == 1,
		DisableCache:      true,
		DisableRetry:      true,
		AlwaysPipelining:  true,
	}
}

// Child starts a process that the kernel kills if the benchmark crashes. The channel is closed when
// it has ended and has been waited for; cmd.ProcessState may be read then.
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

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// PID is that of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Admin is a connection apart from the measured ones.
func (s *Server) Admin() rueidis.Client { return s.admin }

// Close kills the process, waits for it and removes its folder.
func (s *Server) Close() {
	if s.admin != nil {
		s.admin.Close()
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	_ = os.RemoveAll(s.dir)
}

// FreePort is a port of the loopback interface that nobody uses now.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

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
	done  chan struct{} // closed when the process has been reaped
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
		done: make(chan struct{}),
	}
	s.cmd = exec.Command(path, append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no"}, args...)...)
	dieWithParent(s.cmd)
	if err := s.run(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	if err := s.await(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// run starts the process from an OS thread that stays until the process ends:
// the kernel ties the parent-death signal to the thread, not to the process.
func (s *Server) run() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
		close(s.done)
	}()
	return <-started
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
	addrs := strings.Split(addr, addressComma)
	return rueidis.ClientOption{
		InitAddress:       addrs,
		ForceSingleClient: len(addrs) == 1,
		DisableCache:      true,
		DisableRetry:      true,
		AlwaysPipelining:  true,
	}
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Admin is a connection apart from the measured ones.
func (s *Server) Admin() rueidis.Client { return s.admin }

// Flush removes all keys.
func (s *Server) Flush(ctx context.Context) error {
	return s.admin.Do(ctx, s.admin.B().Flushall().Sync().Build()).Error()
}

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

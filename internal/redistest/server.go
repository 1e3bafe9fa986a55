package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	startTimeout = 20 * time.Second // for one server; it takes some 20 ms
	adminTimeout = 10 * time.Second // for one administrative command
	firstPause   = 4 * time.Millisecond
	longestPause = 32 * time.Millisecond
	startTries   = 5 // a port can be lost to another process between choice and use
	logShown     = 4 << 10
)

// Server is one redis-server process.
type Server struct {
	tb   testing.TB
	path string
	dir  string
	log  tail
	port int
	config

	mu     sync.Mutex
	proc   *process      // the newest; never nil once started
	ahead  time.Duration // the wall clock of the machine's
	paused bool
	admin  rueidis.Client // nil while down
}

// Standalone starts one server. It is ready for commands when this returns.
func Standalone(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	return start(tb, 1, newConfig(opts).after())[0]
}

// Servers starts n independent servers (n at least 1), all at once.
func Servers(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	return start(tb, n, newConfig(opts).after())
}

// serverProgram finds redis-server or ends the test.
func serverProgram(tb testing.TB) string {
	tb.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("SHARDLIMIT_REDIS_SERVER"), "redis-server"))
	switch {
	case err == nil:
		return path
	case os.Getenv("SHARDLIMIT_REQUIRE_REDIS") == "1":
		tb.Fatalf("redistest: SHARDLIMIT_REQUIRE_REDIS is 1, but there is no server program: %v", err)
	default:
		tb.Skipf("redistest: needs a redis-server on the PATH: %v", err)
	}
	return ""
}

// start starts n servers side by side and registers their end with tb.
func start(tb testing.TB, n int, c config) []*Server {
	tb.Helper()
	if n < 1 {
		tb.Fatalf("redistest: %d servers asked for, want at least 1", n)
	}
	path := serverProgram(tb)
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = &Server{tb: tb, path: path, dir: tb.TempDir(), config: c}
	}
	// Registered after TempDir, hence run before its removal.
	tb.Cleanup(func() { closeAll(tb, servers) })
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.launch() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return servers
}

func closeAll(tb testing.TB, servers []*Server) {
	for _, s := range servers {
		s.close()
		if tb.Failed() {
			tb.Logf("redis-server %s, end of its log:\n%s", s.Addr(), s.log.last(logShown))
		}
	}
}

// launch starts the process for the first time, on a port of its own.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for range startTries {
		if s.port, err = reservePort(); err != nil {
			return err
		}
		if err = s.startLocked(); err == nil {
			return nil
		}
		s.stopLocked()
		releasePort(s.port)
		s.port = 0 // no longer ours to release
		if !portLost(s.log.last(logShown)) {
			return err
		}
	}
	return err
}

// portLost tells from the log of a redis-server that ended at once whether
// somebody else had taken its port or its cluster bus port.
func portLost(log string) bool {
	return strings.Contains(log, "ddress already in use") || strings.Contains(log, "Failed listening on port")
}

// startLocked starts the process on s.port and waits until it serves.
func (s *Server) startLocked() error {
	port := []string{"--port", strconv.Itoa(s.port)}
	if s.tls != nil {
		port = []string{"--port", "0", "--tls-port", strconv.Itoa(s.port)}
	}
	args := append(slices.Concat(s.all, port), "--bind", "127.0.0.1", "--dir", s.dir, "--daemonize", "no")
	if s.clock != "" { // that thread sleeps until an instant of the set clock, which may be over by the real one
		args = append(args, "--jemalloc-bg-thread", "no")
	}
	env, err := s.environment()
	if err != nil {
		return err
	}
	proc, err := startProcess(s.path, args, s.dir, env, &s.log)
	if err != nil {
		return err
	}
	s.proc, s.paused = proc, false
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return poll(ctx, func() error {
		if proc.ended() {
			return final{fmt.Errorf("redistest: redis-server on port %d ended (%v):\n%s", s.port, proc.err,
				s.log.last(logShown))}
		}
		return s.probeLocked(ctx)
	})
}

// probeLocked opens the administrative connection if our process, and not a
// stranger on the same port, answers and has loaded its data.
func (s *Server) probeLocked(ctx context.Context) error {
	client, err := rueidis.NewClient(s.adminOption())
	if err != nil {
		return err
	}
	info, err := client.Do(ctx, client.B().Info().Build()).ToString()
	renamed := err != nil && strings.HasPrefix(err.Error(), "unknown command")
	switch {
	case err != nil && !renamed:
	case !renamed && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.proc.pid())):
		err = fmt.Errorf("redistest: port %d is served by another process", s.port)
	case strings.Contains(info, "\nloading:1"):
		err = errors.New("redistest: still loading")
	default:
		s.admin = client
		return nil
	}
	client.Close()
	return err
}

func (s *Server) adminOption() rueidis.ClientOption {
	opt := rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		TLSConfig:         s.tls,
		ForceSingleClient: true,
		DisableCache:      true,
		DisableRetry:      true,
		AlwaysRESP2:       true, // RESP3 marks texts such as CLUSTER NODES with "txt:"
		ConnWriteTimeout:  adminTimeout,
		PipelineMultiplex: -1, // one connection
	}
	opt.Dialer.Timeout = time.Second
	return Slim(opt)
}

// do sends one administrative command.
func (s *Server) do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	replies, err := s.doMulti(ctx, args)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return replies[0], nil
}

// text sends one administrative command that answers with text.
func (s *Server) text(ctx context.Context, args ...string) (string, error) {
	reply, err := s.do(ctx, args...)
	if err != nil {
		return "", err
	}
	return reply.ToString()
}

// doMulti sends administrative commands in one go, in order. All are sent even
// if one fails; the error is that of the first that failed.
func (s *Server) doMulti(ctx context.Context, commands ...[]string) ([]rueidis.RedisMessage, error) {
	s.mu.Lock()
	admin, paused := s.admin, s.paused
	s.mu.Unlock()
	if admin == nil || paused {
		return nil, fmt.Errorf("redistest: %s is down or paused", s.Addr())
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	built := make([]rueidis.Completed, len(commands))
	for i, c := range commands {
		built[i] = admin.B().Arbitrary(c...).Build()
	}
	replies := make([]rueidis.RedisMessage, len(commands))
	for i, result := range admin.DoMulti(ctx, built...) {
		reply, err := result.ToMessage()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, fmt.Errorf("redistest: %s: %.200q: %w", s.Addr(), commands[i], err)
		}
		replies[i] = reply
	}
	return replies, nil
}

// Do sends one command and returns the reply as text, or "" if there is none. The server must run.
func (s *Server) Do(tb testing.TB, args ...string) string {
	tb.Helper()
	message, err := s.do(context.Background(), args...)
	reply, failed := message.ToAny()
	if err != nil || failed != nil && !rueidis.IsRedisNil(failed) {
		tb.Fatalf("redistest: %s: %.200q: %v", s.Addr(), args, errors.Join(err, failed))
	}
	if reply == nil {
		return ""
	}
	return fmt.Sprint(reply)
}

// Addr is the server's address, host:port. It never changes.
func (s *Server) Addr() string { return address(s.port) }

// Pid is the id of the newest process of this server.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	masterSet       = "shardlimit"
	sentinelTimeout = 60 * time.Second
)

// Sentinel is a master with replicas, watched by one redis-sentinel, which is
// its own quorum: several would need seconds to find one another, and their
// vote is not what the tests are about.
type Sentinel struct {
	tb      testing.TB
	watcher *Server
	servers []*Server // a master, and replicas
}

// NewSentinel starts a master with at least one replica and a sentinel, and
// waits until the replicas have their data and the sentinel knows them all. A
// master that does not answer for 1 s is replaced by a replica.
func NewSentinel(tb testing.TB, replicas int, opts ...Option) *Sentinel {
	tb.Helper()
	if replicas < 1 {
		tb.Fatalf("redistest: sentinel with %d replicas, want at least 1", replicas)
	}
	s := &Sentinel{tb: tb, servers: start(tb, 1+replicas, newConfig(opts).after())}
	ctx, cancel := context.WithTimeout(context.Background(), sentinelTimeout)
	defer cancel()
	host, port, _ := net.SplitHostPort(s.servers[0].Addr())
	for _, replica := range s.servers[1:] {
		if _, err := replica.do(ctx, "REPLICAOF", host, port); err != nil {
			tb.Fatal(err)
		}
	}
	// A replica must be linked before the sentinel first asks the master about
	// it; else the sentinel learns of it only 10 s later.
	if err := poll(ctx, func() error { return s.linked(ctx, s.servers[0]) }); err != nil {
		tb.Fatalf("redistest: replicate: %v", err)
	}
	s.watcher = startSentinel(tb, host, port)
	if err := poll(ctx, func() error { return s.watched(ctx, s.servers[0]) }); err != nil {
		tb.Fatalf("redistest: sentinel: %v", err)
	}
	return s
}

// startSentinel writes the file that a sentinel insists on, and starts it.
func startSentinel(tb testing.TB, host, port string) *Server {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "sentinel.conf")
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %s 1", masterSet, host, port),
		fmt.Sprintf("sentinel down-after-milliseconds %s 3000", masterSet),
		fmt.Sprintf("sentinel failover-timeout %s 5000", masterSet),
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	return start(tb, 1, config{all: []string{file, "--sentinel"}})[0]
}

// linked tells whether all living servers but the excepted follow the master.
func (s *Sentinel) linked(ctx context.Context, except ...*Server) error {
	for _, r := range s.servers {
		if !r.alive() || slices.Contains(except, r) {
			continue
		}
		if err := r.linkUp(ctx); err != nil {
			return err
		}
	}
	return nil
}

// findMaster asks the sentinel who the master is.
func (s *Sentinel) findMaster(ctx context.Context) (*Server, error) {
	reply, err := s.watcher.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet)
	if err != nil {
		return nil, err
	}
	hostPort, err := reply.AsStrSlice()
	if err != nil || len(hostPort) != 2 {
		return nil, fmt.Errorf("redistest: sentinel names no master: %v, %w", hostPort, err)
	}
	addr := net.JoinHostPort(hostPort[0], hostPort[1])
	i := slices.IndexFunc(s.servers, func(r *Server) bool { return r.Addr() == addr })
	if i < 0 {
		return nil, fmt.Errorf("redistest: sentinel names the stranger %s as master", addr)
	}
	return s.servers[i], nil
}

// watched tells whether the sentinel takes every living server but the excepted
// for a replica in good order, that is, whether it could fail over to it.
func (s *Sentinel) watched(ctx context.Context, except ...*Server) error {
	reply, err := s.watcher.do(ctx, "SENTINEL", "REPLICAS", masterSet)
	if err != nil {
		return err
	}
	list, err := reply.ToArray()
	if err != nil {
		return err
	}
	good := map[string]bool{}
	for _, entry := range list {
		fields, err := entry.AsStrMap()
		if err != nil {
			return err
		}
		good[fields["name"]] = fields["flags"] == "slave" && fields["master-link-status"] == "ok"
	}
	for _, r := range s.servers {
		if r.alive() && !slices.Contains(except, r) && !good[r.Addr()] {
			return fmt.Errorf("sentinel does not take %s for a good replica", r.Addr())
		}
	}
	return nil
}

// MasterSet is the name under which the sentinel knows the master.
func (s *Sentinel) MasterSet() string { return masterSet }

// Addrs are the addresses of the sentinels, not of the servers they watch.
func (s *Sentinel) Addrs() []string { return []string{s.watcher.Addr()} }

// Servers are the master and its replicas, in the order of their start.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.servers) }

// Master is the server that the sentinel takes for the master now.
func (s *Sentinel) Master() (master *Server) {
	s.tb.Helper()
	within(s.tb, sentinelTimeout, "master", func(ctx context.Context) (err error) {
		master, err = s.findMaster(ctx)
		return err
	})
	return master
}

// AwaitReplicated waits until every living replica has all that the master has written, over
// whichever connection. The command WAIT covers only what its own connection wrote.
func (s *Sentinel) AwaitReplicated() {
	s.tb.Helper()
	within(s.tb, sentinelTimeout, "await replicated", func(ctx context.Context) error {
		master, err := s.findMaster(ctx)
		if err != nil {
			return err
		}
		written, err := master.replicationOffset(ctx, "master_repl_offset")
		if err != nil {
			return err
		}
		return poll(ctx, func() error {
			for _, r := range s.servers {
				if r == master || !r.alive() {
					continue
				}
				if has, err := r.replicationOffset(ctx, "slave_repl_offset"); err != nil || has < written {
					return fmt.Errorf("%s has %d of %d bytes, %w", r.Addr(), has, written, err)
				}
			}
			return nil
		})
	})
}

// replicationOffset reads a number of bytes from INFO replication.
func (s *Server) replicationOffset(ctx context.Context, field string) (int64, error) {
	info, err := s.text(ctx, "INFO", "replication")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if text, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		}
	}
	return 0, fmt.Errorf("redistest: %s does not tell its %s", s.Addr(), field)
}

// Do sends one command to the sentinel.
func (s *Sentinel) Do(tb testing.TB, args ...string) string {
	tb.Helper()
	return s.watcher.Do(tb, args...)
}

// Failover has the sentinel replace the living master by a replica, and returns
// when the other replicas follow the new one. The old master goes on as a master
// that clients should no longer find, until the sentinel, some 10 s later, makes
// it a replica.
func (s *Sentinel) Failover() {
	s.tb.Helper()
	within(s.tb, sentinelTimeout, "failover", func(ctx context.Context) error {
		old, err := s.findMaster(ctx)
		if err != nil {
			return err
		}
		if _, err := s.watcher.do(ctx, "SENTINEL", "FAILOVER", masterSet); err != nil {
			return err
		}
		return s.awaitChange(ctx, old)
	})
}

// AwaitFailover waits until the sentinel has by itself replaced old, a master
// killed or paused, and the living replicas follow the new one.
func (s *Sentinel) AwaitFailover(old *Server) {
	s.tb.Helper()
	within(s.tb, sentinelTimeout, "await failover", func(ctx context.Context) error { return s.awaitChange(ctx, old) })
}

// awaitChange waits until the sentinel has finished replacing old.
func (s *Sentinel) awaitChange(ctx context.Context, old *Server) error {
	return poll(ctx, func() error {
		master, err := s.findMaster(ctx)
		if err != nil {
			return err
		}
		if master == old {
			return errors.New("the old master is still named")
		}
		reply, err := s.watcher.do(ctx, "SENTINEL", "MASTER", masterSet)
		if err != nil {
			return err
		}
		if state, err := reply.AsStrMap(); err != nil || state["flags"] != "master" {
			return fmt.Errorf("failover has not ended: %q, %v", state["flags"], err)
		}
		if err := s.linked(ctx, master, old); err != nil {
			return err
		}
		return s.watched(ctx, master, old) // so that it could do it again at once
	})
}

// Rejoin makes an old master that lives again a replica of the new one at once, and returns when
// the sentinel takes it for one that it could fail over to.
func (s *Sentinel) Rejoin(old *Server) {
	s.tb.Helper()
	within(s.tb, sentinelTimeout, "rejoin", func(ctx context.Context) error {
		master, err := s.findMaster(ctx)
		if err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(master.Addr())
		if _, err := old.do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
		return poll(ctx, func() error { return errors.Join(s.linked(ctx, master), s.watched(ctx, master)) })
	})
}

// ClientOption is a rueidis configuration that finds the master by the sentinel.
func (s *Sentinel) ClientOption() rueidis.ClientOption {
	return Slim(rueidis.ClientOption{
		InitAddress:  s.Addrs(),
		DisableCache: true,
		Sentinel:     rueidis.SentinelOption{MasterSet: masterSet},
	})
}

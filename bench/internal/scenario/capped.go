package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/cgroup"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/server"
)

// cappedQuota is the part of a core that each node gets. The smallest time the
// kernel knows is 1 ms; a fortieth of a core lets twelve nodes and the clients
// that can saturate them share two cores and leave them idle half of the time.
var cappedQuota = cgroup.Quota{Time: time.Millisecond, Period: 40 * time.Millisecond}

// quota is what each node gets. A smoke run measures nothing, so it shall not take long
// on a machine that is busy or slow.
func (e Env) quota() cgroup.Quota {
	q := cappedQuota
	if e.Smoke {
		q.Time *= 8
	}
	return q
}

// capped is a number of servers that have the same small part of a core each.
type capped struct {
	servers []*server.Server
	groups  []*cgroup.Group
}

// startCapped starts n servers and caps each. An error that wraps
// cgroup.ErrUnsupported means that nothing can be capped here.
func startCapped(ctx context.Context, env Env, result *report.Result, n int) (*capped, error) {
	c := &capped{}
	for i := range n {
		g, err := cgroup.New(env.quota())
		if err != nil {
			c.Close()
			return nil, err
		}
		c.groups = append(c.groups, g)
		s, err := env.startNode(ctx, result, i)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.servers = append(c.servers, s)
		if err := confine(ctx, s, g); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// startNode is start for one of several servers: the version is noted once.
func (e Env) startNode(ctx context.Context, result *report.Result, i int) (*server.Server, error) {
	if i == 0 {
		return e.start(ctx, result)
	}
	return server.Start(ctx, e.Redis)
}

func confine(ctx context.Context, s *server.Server, g *cgroup.Group) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(info["process_id"])
	if err != nil {
		return fmt.Errorf("INFO field process_id: %w", err)
	}
	if err := g.Add(pid); err != nil {
		return fmt.Errorf("%w: %w", cgroup.ErrUnsupported, err)
	}
	return nil
}

// Close ends the servers and removes their groups.
func (c *capped) Close() {
	for _, s := range c.servers {
		s.Close()
	}
	for _, g := range c.groups {
		_ = g.Close() // the next run sweeps up what could not be removed
	}
}

func (c *capped) addrs(n int) []string {
	var addrs []string
	for _, s := range c.servers[:n] {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// usage reads the counters of the first n servers.
func (c *capped) usage(ctx context.Context, n int) ([]server.Usage, error) {
	all := make([]server.Usage, n)
	errs := make([]error, n)
	done := make(chan struct{})
	for i := range n { // at once: an answer can take a period of the quota
		go func() {
			all[i], errs[i] = c.servers[i].Usage(ctx)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	return all, errors.Join(errs...)
}

// ticks is how much the cores of this machine have worked, and could have, in
// units of the kernel; ok is false where that cannot be told.
type ticks struct {
	busy, all float64
	ok        bool
}

// machineTicks reads the first line of the kernel's own account, which is
// "cpu user nice system idle iowait irq softirq steal guest ...". Guests are
// contained in user.
func machineTicks(file string) ticks {
	text, err := os.ReadFile(file)
	if err != nil {
		return ticks{}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return ticks{}
	}
	var t ticks
	for i, field := range fields[1:9] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return ticks{}
		}
		t.all += n
		if i != 3 && i != 4 { // idle, iowait
			t.busy += n
		}
	}
	t.ok = true
	return t
}

// busySince is the part of all cores, in percent, that was at work since an
// earlier reading.
func (t ticks) busySince(earlier ticks) (percent float64, ok bool) {
	if !t.ok || !earlier.ok || t.all <= earlier.all {
		return 0, false
	}
	return 100 * (t.busy - earlier.busy) / (t.all - earlier.all), true
}

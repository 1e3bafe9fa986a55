package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	// clusterTimeout bounds forming and settling. Redis itself waits 2 s before
	// a new master accepts commands.
	clusterTimeout = 2 * time.Minute
	maxNodes       = 30
)

// Cluster is a Redis Cluster. Its slots are divided into equal parts, one for
// each master; part i is served by one of the servers that began as master i
// and its replicas.
type Cluster struct {
	tb      testing.TB
	servers []*Server
	parts   [][]*Server
	ids     map[*Server]string
	byID    map[string]*Server
}

// NewCluster starts a cluster and waits until every node accepts commands and
// every replica follows its master, which takes some 3 seconds. masters must be
// at least 1, replicasPerMaster at least 0, and all together at most 30.
//
// The node timeout is 6 s, so that on a busy machine nobody is taken for dead who
// is only short of time. Failover replaces a master that was killed or paused at
// once. The whole cluster is down while a slot has no master,
// unless the options contain Args("--cluster-require-full-coverage", "no").
func NewCluster(tb testing.TB, masters, replicasPerMaster int, opts ...Option) *Cluster {
	tb.Helper()
	if masters < 1 || replicasPerMaster < 0 || masters*(1+replicasPerMaster) > maxNodes {
		tb.Fatalf("redistest: no cluster of %d masters with %d replicas each", masters, replicasPerMaster)
	}
	args := []string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", "6000", "--cluster-allow-replica-migration", "no",
		"--cluster-replica-validity-factor", "0", // a replica may always be promoted
	}
	c := &Cluster{
		tb:      tb,
		servers: start(tb, masters*(1+replicasPerMaster), newConfig(opts).after(args...)),
		ids:     map[*Server]string{},
		byID:    map[string]*Server{},
	}
	for i := range masters {
		part := []*Server{c.servers[i]}
		for r := range replicasPerMaster {
			part = append(part, c.servers[masters+i*replicasPerMaster+r])
		}
		c.parts = append(c.parts, part)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clusterTimeout)
	defer cancel()
	if err := c.form(ctx); err != nil {
		tb.Fatalf("redistest: form cluster: %v", err)
	}
	return c
}

// form makes a cluster of the empty servers.
func (c *Cluster) form(ctx context.Context) error {
	for _, s := range c.servers {
		id, err := s.text(ctx, "CLUSTER", "MYID")
		if err != nil {
			return err
		}
		c.ids[s], c.byID[id] = id, s
	}
	for i, part := range c.parts {
		// Distinct epochs spare the nodes the resolution of collisions.
		// ADDSLOTS, not ADDSLOTSRANGE, as that began with Redis 7.
		first, last := i*slotCount/len(c.parts), (i+1)*slotCount/len(c.parts)
		add := []string{"CLUSTER", "ADDSLOTS"}
		for slot := first; slot < last; slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		epoch := []string{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}
		if _, err := part[0].doMulti(ctx, epoch, add); err != nil {
			return err
		}
	}
	// All pairs meet at once: gossip would take longer to spread the news.
	for i, s := range c.servers {
		for _, other := range c.servers[:i] {
			if _, err := s.do(ctx, "CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.port)); err != nil {
				return err
			}
		}
	}
	if err := c.await(ctx, c.acquainted); err != nil {
		return err
	}
	for _, part := range c.parts {
		for _, replica := range part[1:] {
			if _, err := replica.do(ctx, "CLUSTER", "REPLICATE", c.ids[part[0]]); err != nil {
				return err
			}
		}
	}
	return c.await(ctx, c.settled, c.replicated)
}

func (c *Cluster) acquainted(ctx context.Context) error {
	for _, s := range c.servers {
		v, err := s.view(ctx)
		if err != nil {
			return err
		}
		if err := c.wellKnown(v); err != nil {
			return fmt.Errorf("%s %w", s.Addr(), err)
		}
	}
	return nil
}

// replicated tells whether every living node that is not the master of its part
// follows that master, all nodes know it, and its copy is complete.
func (c *Cluster) replicated(ctx context.Context) error {
	masters, err := c.masters(ctx)
	if err != nil {
		return err
	}
	for i, part := range c.parts {
		for _, s := range part {
			if s == masters[i] || !s.alive() {
				continue
			}
			if err := c.follows(ctx, s, masters[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cluster) follows(ctx context.Context, replica, master *Server) error {
	for _, s := range c.servers {
		if !s.alive() {
			continue
		}
		v, err := s.view(ctx)
		if err != nil {
			return err
		}
		if m := v[c.ids[replica]]; m == nil || !m.flags["slave"] || m.master != c.ids[master] {
			return fmt.Errorf("%s does not know that %s follows %s", s.Addr(), replica.Addr(), master.Addr())
		}
	}
	if !master.alive() {
		return nil
	}
	return replica.linkUp(ctx)
}

// linkUp tells whether a replica has its master's data and follows it.
func (s *Server) linkUp(ctx context.Context) error {
	info, err := s.text(ctx, "INFO", "replication")
	if err != nil {
		return err
	}
	if !strings.Contains(info, "master_link_status:up") {
		return fmt.Errorf("%s is not linked to its master", s.Addr())
	}
	return nil
}

// masters finds the master of each part: of those that any living node takes
// for a master, the one with the newest epoch.
func (c *Cluster) masters(ctx context.Context) ([]*Server, error) {
	masters := make([]*Server, len(c.parts))
	newest := slices.Repeat([]int64{-1}, len(c.parts))
	for _, s := range c.servers {
		if !s.alive() {
			continue
		}
		v, err := s.view(ctx)
		if err != nil {
			return nil, err
		}
		for i, part := range c.parts {
			for _, candidate := range part {
				m := v[c.ids[candidate]]
				if m != nil && m.flags["master"] && m.epoch > newest[i] {
					masters[i], newest[i] = candidate, m.epoch
				}
			}
		}
	}
	if slices.Contains(masters, nil) {
		return nil, errors.New("redistest: no living node knows all masters")
	}
	return masters, nil
}

// await polls until all conditions hold at once.
func (c *Cluster) await(ctx context.Context, conditions ...func(context.Context) error) error {
	return poll(ctx, func() error {
		for _, holds := range conditions {
			if err := holds(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Addrs are the addresses of all nodes: first those that began as masters.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.servers))
	for i, s := range c.servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Servers are all nodes, in the order of Addrs.
func (c *Cluster) Servers() []*Server { return slices.Clone(c.servers) }

// Masters are the masters now, Masters()[i] that of part i. At least one node
// must be alive.
func (c *Cluster) Masters() (masters []*Server) {
	c.tb.Helper()
	within(c.tb, clusterTimeout, "masters", func(ctx context.Context) (err error) {
		masters, err = c.masters(ctx)
		return err
	})
	return masters
}

// ClientOption is a rueidis configuration for the whole cluster.
func (c *Cluster) ClientOption() rueidis.ClientOption {
	return Slim(rueidis.ClientOption{InitAddress: c.Addrs(), TLSConfig: c.servers[0].tls, DisableCache: true})
}

// Client returns a client of the cluster. tb closes it.
func (c *Cluster) Client(tb testing.TB) rueidis.Client {
	tb.Helper()
	return newClient(tb, c.ClientOption(), c.servers...)
}

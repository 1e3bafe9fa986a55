package redistest

import (
	"context"
	"errors"
	"fmt"
)

// Failover makes a living replica of part i its master and returns when all
// living nodes agree and follow. If the old master is alive this is the planned
// kind, which loses nothing, and the old master becomes a replica. If it is down
// or paused the replica takes over at once without a vote, with what it has.
func (c *Cluster) Failover(i int) {
	c.tb.Helper()
	within(c.tb, clusterTimeout, "failover", func(ctx context.Context) error { return c.failover(ctx, i) })
}

func (c *Cluster) failover(ctx context.Context, i int) error {
	if i < 0 || i >= len(c.parts) {
		return fmt.Errorf("no part %d of %d", i, len(c.parts))
	}
	masters, err := c.masters(ctx)
	if err != nil {
		return err
	}
	var replica *Server
	for _, s := range c.parts[i] {
		if s != masters[i] && s.alive() {
			replica = s
			break
		}
	}
	if replica == nil {
		return errors.New("it has no living replica")
	}
	command := []string{"CLUSTER", "FAILOVER"}
	if !masters[i].alive() {
		command = append(command, "TAKEOVER")
	}
	if _, err := replica.do(ctx, command...); err != nil {
		return err
	}
	promoted := func(ctx context.Context) error {
		masters, err := c.masters(ctx)
		if err == nil && masters[i] != replica {
			err = fmt.Errorf("%s is not yet the master", replica.Addr())
		}
		return err
	}
	return c.await(ctx, promoted, c.settled, c.replicated)
}

// AwaitSettled waits until every living node accepts commands, all agree on the
// owner of every slot, and every living replica follows its master: after a
// Restart or Resume.
func (c *Cluster) AwaitSettled() {
	c.tb.Helper()
	within(c.tb, clusterTimeout, "settle",
		func(ctx context.Context) error { return c.await(ctx, c.settled, c.replicated) })
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	slots        = 16384
	formTimeout  = 20 * time.Second
	formTick     = 20 * time.Millisecond
	addressComma = "," // between the addresses of a cluster
)

// Cluster is a Redis Cluster of masters.
type Cluster []*Server

// StartCluster starts n masters that share the slots evenly, and waits until each knows of all.
func StartCluster(ctx context.Context, program string, n int) (Cluster, error) {
	var c Cluster
	for range n {
		s, err := Start(ctx, program, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		if err != nil {
			c.Close()
			return nil, err
		}
		c = append(c, s)
	}
	if err := c.form(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return c, nil
}

func (c Cluster) form(ctx context.Context) error {
	for i, s := range c {
		add := []string{"ADDSLOTS"} // ADDSLOTSRANGE began with Redis 7
		for slot := i * slots / len(c); slot < (i+1)*slots/len(c); slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		if err := s.cluster(ctx, "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if err := s.cluster(ctx, add...); err != nil {
			return err
		}
		for _, other := range c[:i] {
			host, port, err := net.SplitHostPort(other.addr)
			if err == nil {
				err = s.cluster(ctx, "MEET", host, port)
			}
			if err != nil {
				return err
			}
		}
	}
	return c.await(ctx)
}

func (s *Server) cluster(ctx context.Context, arguments ...string) error {
	return s.admin.Do(ctx, s.admin.B().Arbitrary("CLUSTER").Args(arguments...).Build()).Error()
}

// await waits until each node says that the cluster is whole, and lists all.
func (c Cluster) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	tick := time.NewTicker(formTick)
	defer tick.Stop()
	for {
		whole := 0
		for _, s := range c {
			info, err := s.admin.Do(ctx, s.admin.B().ClusterInfo().Build()).ToString()
			if err != nil {
				return err
			}
			fields := parseInfo(strings.TrimPrefix(info, "txt:")) // what RESP3 says of its form
			if fields["cluster_state"] == "ok" && fields["cluster_known_nodes"] == strconv.Itoa(len(c)) {
				whole++
			}
		}
		if whole == len(c) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Addr is the addresses of the masters, as Option takes them.
func (c Cluster) Addr() string {
	var addrs []string
	for _, s := range c {
		addrs = append(addrs, s.Addr())
	}
	return strings.Join(addrs, addressComma)
}

// Usage is that of all masters together.
func (c Cluster) Usage(ctx context.Context) (sum Usage, err error) {
	for _, s := range c {
		u, err := s.Usage(ctx)
		if err != nil {
			return sum, err
		}
		sum = Usage{sum.CPU + u.CPU, sum.Scripts + u.Scripts, sum.ScriptMicro + u.ScriptMicro}
	}
	return sum, nil
}

// Memory is that of all masters together.
func (c Cluster) Memory(ctx context.Context) (sum int64, err error) {
	for _, s := range c {
		bytes, err := s.Memory(ctx)
		if err != nil {
			return sum, err
		}
		sum += bytes
	}
	return sum, nil
}

// Flush removes all keys.
func (c Cluster) Flush(ctx context.Context) error {
	var errs []error
	for _, s := range c {
		errs = append(errs, s.Flush(ctx))
	}
	return errors.Join(errs...)
}

// Close ends the masters.
func (c Cluster) Close() {
	for _, s := range c {
		s.Close()
	}
}

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
	slots       = 16384
	formTimeout = 20 * time.Second
	formTick    = 20 * time.Millisecond
)

// Farm is several servers.
type Farm []*Server

// StartFarm starts n servers, or none if one of them fails.
func StartFarm(ctx context.Context, program string, n int, args ...string) (Farm, error) {
	var f Farm
	for range n {
		s, err := Start(ctx, program, args...)
		if err != nil {
			f.Close()
			return nil, err
		}
		f = append(f, s)
	}
	return f, nil
}

// StartCluster starts n masters that share the slots evenly, and waits until each knows of all.
func StartCluster(ctx context.Context, program string, n int) (Farm, error) {
	f, err := StartFarm(ctx, program, n, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
	if err != nil {
		return nil, err
	}
	if err := f.form(ctx); err != nil {
		f.Close()
		return nil, fmt.Errorf("form a cluster: %w", err)
	}
	return f, nil
}

func (f Farm) form(ctx context.Context) error {
	for i, s := range f {
		add := []string{"ADDSLOTS"} // ADDSLOTSRANGE began with Redis 7
		for slot := i * slots / len(f); slot < (i+1)*slots/len(f); slot++ {
			add = append(add, strconv.Itoa(slot))
		}
		orders := [][]string{{"SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}, add}
		for _, other := range f[:i] {
			host, port, err := net.SplitHostPort(other.addr)
			if err != nil {
				return err
			}
			orders = append(orders, []string{"MEET", host, port})
		}
		for _, words := range orders {
			if err := s.admin.Do(ctx, s.admin.B().Arbitrary("CLUSTER").Args(words...).Build()).Error(); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, formTimeout)
	defer cancel()
	for {
		whole, err := f.whole(ctx)
		if whole || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(formTick):
		}
	}
}

// whole reports whether each node says that the cluster is whole, and lists all.
func (f Farm) whole(ctx context.Context) (bool, error) {
	for _, s := range f {
		info, err := s.admin.Do(ctx, s.admin.B().ClusterInfo().Build()).ToString()
		if err != nil {
			return false, err
		}
		fields := parseInfo(strings.TrimPrefix(info, "txt:")) // what RESP3 says of its form
		if fields["cluster_state"] != "ok" || fields["cluster_known_nodes"] != strconv.Itoa(len(f)) {
			return false, nil
		}
	}
	return true, nil
}

// Addrs are the addresses of the servers.
func (f Farm) Addrs() []string {
	addrs := make([]string, len(f))
	for i, s := range f {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Addr is all addresses, as Option takes those of a cluster.
func (f Farm) Addr() string { return strings.Join(f.Addrs(), ",") }

// Usage is what all servers together have done since they started.
func (f Farm) Usage(ctx context.Context) (sum Usage, err error) {
	for _, s := range f {
		u, err := s.Usage(ctx)
		if err != nil {
			return sum, err
		}
		sum = Usage{sum.CPU + u.CPU, sum.Scripts + u.Scripts, sum.ScriptMicro + u.ScriptMicro}
	}
	return sum, nil
}

// Flush removes all keys.
func (f Farm) Flush(ctx context.Context) error {
	var errs []error
	for _, s := range f {
		errs = append(errs, s.admin.Do(ctx, s.admin.B().Flushall().Sync().Build()).Error())
	}
	return errors.Join(errs...)
}

// Close ends the servers.
func (f Farm) Close() {
	for _, s := range f {
		s.Close()
	}
}

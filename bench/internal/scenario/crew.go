package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardlimit/shardlimit/bench/internal/load"
	"github.com/shardlimit/shardlimit/bench/internal/report"
	"github.com/shardlimit/shardlimit/bench/internal/rival"
)

// crew is several clients of one limiter, each with connections of its own, as
// several processes would have them. Limiters that live in the process are
// shared by all clients: apart, each would have the whole limit for itself.
type crew struct {
	name    string
	handles []rival.Handle // one a client
	once    bool           // the handles are all the same
}

// How often warmUp tries, and the time between two tries.
const (
	warmTries = 5
	warmPause = time.Second
)

// warmUp makes one call of a limit that nobody measures, so that the server knows
// the script: a herd of calls that all find it missing is an outage to go-zero's
// circuit breaker, and no part of what is measured.
//
// It is tried again after an error: on a machine that is very busy a connection may
// take longer than a client waits.
func warmUp(ctx context.Context, name string, h rival.Handle) error {
	var err error
	for try := 0; try < warmTries && ctx.Err() == nil; try++ {
		var allow rival.Allow
		if allow, err = h.Limiter(ctx, "warm-up-"+strings.ReplaceAll(name, " ", "_")); err == nil {
			_, err = allow(ctx)
		}
		if err == nil {
			return nil
		}
		_ = load.Sleep(ctx, warmPause)
	}
	return errors.Join(err, ctx.Err())
}

func openCrew(ctx context.Context, name string, clients int, local bool,
	open func() (rival.Handle, error)) (*crew, error) {
	c := &crew{name: name, once: local}
	for len(c.handles) < clients {
		if local && len(c.handles) > 0 {
			c.handles = append(c.handles, c.handles[0])
			continue
		}
		h, err := open()
		if err == nil {
			c.handles = append(c.handles, h)
			err = warmUp(ctx, name, h)
		}
		if err != nil {
			c.close()
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
	}
	return c, nil
}

func (c *crew) close() {
	handles := c.handles
	if c.once && len(handles) > 1 {
		handles = handles[:1]
	}
	closeAll(handles)
}

// limiters returns each client's view of the limit with this name. Crews that
// share a server do not share limits.
func (c *crew) limiters(ctx context.Context, name string) ([]rival.Allow, error) {
	name += "-" + strings.ReplaceAll(c.name, " ", "_")
	allows := make([]rival.Allow, len(c.handles))
	for i, h := range c.handles {
		var err error
		if allows[i], err = h.Limiter(ctx, name); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return allows, nil
}

// crews opens a crew for every rival that was asked for, each on a server of the
// farm, and for shardlimit one for each number of nodes.
func (f farm) crews(ctx context.Context, rivals []rival.Rival, limit rival.Limit, clients int,
	nodes []int) (all []*crew, err error) {
	defer func() {
		if err != nil {
			closeCrews(all)
			all = nil
		}
	}()
	add := func(name string, local bool, open func() (rival.Handle, error)) error {
		c, err := openCrew(ctx, name, clients, local, open)
		if err == nil {
			all = append(all, c)
		}
		return err
	}
	for i, r := range rivals {
		if r.Name == rival.Shardlimit.Name {
			for _, n := range nodes {
				sharded := rival.Sharded{Addrs: f.addrs(n)}
				if err := add(shardedName(n), false,
					func() (rival.Handle, error) { return sharded.Open(limit) }); err != nil {
					return all, err
				}
			}
			continue
		}
		addr := f[i%len(f)].Addr()
		if err := add(r.Name, r.Local, func() (rival.Handle, error) { return r.Open(ctx, addr, limit) }); err != nil {
			return all, err
		}
	}
	return all, nil
}

func closeCrews(all []*crew) {
	for _, c := range all {
		c.close()
	}
}

func shardedName(nodes int) string {
	if nodes == 1 {
		return "shardlimit, 1 node"
	}
	return fmt.Sprintf("shardlimit, %d nodes", nodes)
}

// networked are the rivals that ask a server.
func (e Env) networked() []rival.Rival {
	return slices.DeleteFunc(slices.Clone(e.Rivals), func(r rival.Rival) bool { return r.Local })
}

// redisson opens Redisson if it takes part. Where it cannot run it returns nil,
// and the result says why.
func (e Env) redisson(ctx context.Context, result *report.Result, addr string, limit rival.Limit,
	clients int) (*rival.Redisson, error) {
	if !e.Redisson {
		return nil, nil
	}
	r, err := rival.OpenRedisson(ctx, addr, limit, clients)
	if errors.Is(err, rival.ErrMissing) {
		result.Remark("%s is left out: it %v.", rival.RedissonName, err)
		return nil, nil
	}
	if err == nil {
		result.Software = append(result.Software, report.Pair{Name: rival.RedissonName, Value: r.Version})
	}
	return r, err
}

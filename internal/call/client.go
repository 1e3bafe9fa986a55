package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// rememberedKeys is of how many keys of a Family, and some more up to a tenth, a process remembers
// what it knows while no call is under way. A denial takes 300 bytes, all else about 1.4 KB.
const rememberedKeys = 65_536

// Client is the limits of a process.
type Client struct {
	*limit.Process
	made       atomic.Bool // the Process is there; metrics may be read before
	FamilyKeys int         // that each Family opened from now on remembers

	known    sync.Mutex
	limiters map[string]*Target
	families map[string]*Family
}

// New checks the whole configuration and returns a Client, which connects on first use.
func New(cfg limit.Config) (c *Client, err error) {
	c = &Client{FamilyKeys: rememberedKeys, limiters: make(map[string]*Target), families: make(map[string]*Family)}
	c.Process, err = limit.NewProcess(cfg, limit.Events{Gauges: c.gauges, Renamed: c.renew, NodesChanged: c.reconsider,
		Deleted: c.forget})
	if err != nil {
		return nil, err
	}
	c.made.Store(true)
	return c, nil
}

// reconsider has the limits follow the nodes that are lost, or back.
func (c *Client) reconsider() {
	for _, co := range c.recorded() {
		co.Reconsider()
	}
}

// Limiter declares or joins the limit of that name.
func (c *Client) Limiter(ctx context.Context, name string, declared limit.Limit) (Limiter, error) {
	if err := limit.CheckName("name", name); err != nil {
		return Limiter{}, err
	}
	if err := declared.Validate(); err != nil {
		return Limiter{}, err
	}
	for {
		co, err := c.target(name, declared)
		if err != nil {
			return Limiter{}, err
		}
		switch err := co.Join(ctx, declared); {
		case errors.Is(err, register.ErrDeleted): // just now, by another handle
			continue
		case err != nil:
			return Limiter{}, err
		}
		co.Overruled(declared, co.LimitNow())
		return co.limiter(), nil
	}
}

// Open joins a limit that is stored already.
func (c *Client) Open(ctx context.Context, name string) (Limiter, error) {
	co, err := open(ctx, c, name, false, c.limiters, c.target)
	if err != nil {
		return Limiter{}, err
	}
	if err := co.Join(ctx, co.Declaration()); err != nil {
		return Limiter{}, err
	}
	return co.limiter(), nil
}

// open returns what the Client has under a name, and has it made for the limit that is stored if
// there is nothing.
func open[T any](ctx context.Context, c *Client, name string, family bool, known map[string]*T,
	made func(string, limit.Limit) (*T, error)) (*T, error) {
	if err := limit.CheckName("name", name); err != nil {
		return nil, err
	}
	if c.Closed.Load() {
		return nil, limit.ErrClosed
	}
	c.known.Lock()
	has := known[name]
	c.known.Unlock()
	if has != nil {
		return has, nil
	}
	limit, err := c.stored(ctx, name, family)
	if err != nil {
		return nil, err
	}
	return made(name, limit)
}

// stored returns the limit that is stored under the name, of a limiter or a family.
func (c *Client) stored(ctx context.Context, name string, family bool) (limit.Limit, error) {
	id := "n:" + name
	if family {
		id = "f:" + name
	}
	co := newTarget(c.Process, name, id, limit.Limit{})
	co.Enlist(family)
	layout, err := co.Register.Look(ctx)
	if err != nil {
		return limit.Limit{}, c.Plainly(err)
	}
	return limit.LimitOf(*layout)
}

// target returns the one target of a name.
func (c *Client) target(name string, declared limit.Limit) (*Target, error) {
	c.known.Lock()
	defer c.known.Unlock()
	if c.Closed.Load() {
		return nil, limit.ErrClosed
	}
	co := c.limiters[name]
	if co == nil {
		co = newTarget(c.Process, name, "n:"+name, declared)
		co.Metrics = telemetry.NewLimiter(name, declared.Algorithm.String())
		co.Enlist(false)
		c.limiters[name] = co
	}
	return co, nil
}

// forget forgets a limit that was deleted.
func (c *Client) forget(limit *limit.Core) {
	c.known.Lock()
	defer c.known.Unlock()
	if co := c.limiters[limit.Name]; co != nil && &co.Core == limit {
		delete(c.limiters, limit.Name)
	}
}

// targets returns every limiter with a layout of its own.
func (c *Client) targets() []*Target { return byName(c, c.limiters) }

// everyFamily returns every family that this Client has opened.
func (c *Client) everyFamily() []*Family { return byName(c, c.families) }

// byName returns what the Client has under names, in their order.
func byName[T any](c *Client, named map[string]T) (all []T) {
	c.known.Lock()
	defer c.known.Unlock()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// recorded returns every limiter and family, which have records.
func (c *Client) recorded() (all []*Target) {
	all = c.targets()
	for _, f := range c.everyFamily() {
		all = append(all, f.target)
	}
	return all
}

// renew has all limits and keys find the nodes of their shards anew.
func (c *Client) renew() {
	all := c.targets()
	for _, f := range c.everyFamily() {
		all = append(all, f.keys.all()...)
	}
	for _, co := range all {
		co.Renew()
	}
}

// Rebalance does so for every limit and family that this Client has opened.
func (c *Client) Rebalance(ctx context.Context) error {
	if c.Closed.Load() {
		return limit.ErrClosed
	}
	targets := c.recorded()
	errs := make([]error, len(targets))
	busy := make(chan struct{}, 8) // at once
	var wg sync.WaitGroup
	for i, co := range targets {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			if err := co.Register.Rebalance(ctx); err != nil && !errors.Is(err, register.ErrDeleted) {
				errs[i] = fmt.Errorf("limiter %q: %w", co.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

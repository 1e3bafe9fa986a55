package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/limit"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// rememberedKeys is of how many keys of a Family, and some more up to a tenth, a process remembers
// what it knows while no call is under way. A denial takes 300 bytes, all else about 1.4 KB.
const rememberedKeys = 65_536

// The kinds of what has a name, as they begin its id.
const (
	Limiters = "n:"
	Families = "f:"
)

// Client is the limits of a process.
type Client struct {
	*limit.Process
	made       atomic.Bool // the Process is there; metrics may be read before
	FamilyKeys int         // that each Family opened from now on remembers

	mu    sync.Mutex
	known map[string]*Target // by id; of a family the one that holds its declaration
}

// New checks the whole configuration and returns a Client, which connects on first use.
func New(cfg limit.Config, errs limit.Errors) (c *Client, err error) {
	c = &Client{FamilyKeys: rememberedKeys, known: make(map[string]*Target)}
	c.Process, err = limit.NewProcess(cfg, errs, limit.Events{Gauges: c.gauges, Renamed: c.renew,
		NodesChanged: c.reconsider, Back: c.wake, Deleted: c.forget})
	if err != nil {
		return nil, err
	}
	c.made.Store(true)
	return c, nil
}

// Declare declares or joins what has that name.
func (c *Client) Declare(ctx context.Context, kind, name string, declared limit.Limit) (*Target, error) {
	if err := limit.CheckName("name", name); err != nil {
		return nil, err
	}
	err := declared.Validate()
	if kind == Families {
		declared, err = declared.ForKeys()
	}
	if err != nil {
		return nil, err
	}
	for {
		co, err := c.target(kind, name, declared)
		if err != nil {
			return nil, err
		}
		switch err := co.Join(ctx, declared); {
		case errors.Is(err, register.ErrDeleted): // just now, by another handle
			continue
		case err != nil:
			return nil, err
		}
		co.Overruled(declared, co.LimitNow())
		return co, nil
	}
}

// Open joins what is stored already under a name.
func (c *Client) Open(ctx context.Context, kind, name string) (*Target, error) {
	if err := limit.CheckName("name", name); err != nil {
		return nil, err
	}
	if err := c.Gone(ctx, nil); err != nil {
		return nil, err
	}
	c.mu.Lock()
	co := c.known[kind+name]
	c.mu.Unlock()
	if co == nil {
		look := newTarget(c.Process, name, kind+name, limit.Limit{})
		look.Enlist(kind == Families)
		layout, err := look.Register.Look(ctx)
		if err != nil {
			return nil, c.Plainly(err)
		}
		stored, err := limit.LimitOf(*layout)
		if err != nil {
			return nil, err
		}
		if co, err = c.target(kind, name, stored); err != nil {
			return nil, err
		}
	}
	return co, co.Join(ctx, co.Declaration())
}

// target returns the one target of a name.
func (c *Client) target(kind, name string, declared limit.Limit) (*Target, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Closed.Load() {
		return nil, limit.ErrClosed
	}
	co := c.known[kind+name]
	if co == nil {
		co = newTarget(c.Process, name, kind+name, declared)
		co.Metrics = telemetry.NewLimiter(name, declared.Algorithm.String())
		if kind == Families {
			co.Of = newFamily(co, c.FamilyKeys)
		}
		co.Enlist(kind == Families)
		c.known[co.ID] = co
	}
	return co, nil
}

// forget forgets a limit that was deleted.
func (c *Client) forget(limit *limit.Core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if co := c.known[limit.ID]; co != nil && &co.Core == limit {
		delete(c.known, limit.ID)
	}
}

// all returns every limiter and family, which have records, in the order of their ids.
func (c *Client) all() (all []*Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.known)) {
		all = append(all, c.known[id])
	}
	return all
}

// reconsider has the limits follow the nodes that are lost, or back.
func (c *Client) reconsider() {
	for _, co := range c.all() {
		co.Register.ReconsiderSoon()
		co.Freed(true)
	}
}

// each does something with every limit and family, and with the keys that it has, or that are held.
func (c *Client) each(held bool, do func(*Target)) {
	for _, co := range c.all() {
		do(co)
		if co.Of != nil {
			for _, key := range co.Of.keys.all(held) {
				do(key)
			}
		}
	}
}

// wake has whoever waits look again: a node is back.
func (c *Client) wake() { c.each(true, func(co *Target) { co.Members.Wake(false) }) }

// renew has all limits and keys find the nodes of their shards anew.
func (c *Client) renew() {
	c.each(false, func(co *Target) {
		if co.Of == nil || co.Family != nil { // a family by itself has no shards
			co.Renew()
		}
	})
}

// Rebalance does so for every limit and family that this Client has opened.
func (c *Client) Rebalance(ctx context.Context) error {
	if c.Closed.Load() {
		return limit.ErrClosed
	}
	targets := c.all()
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

// Ping asks every node of the Config, at once, whether it answers: the error is nil if it does.
func (c *Client) Ping(ctx context.Context) (names []string, errs []error) {
	roster := c.Nodes.Roster()
	names = roster.Names()
	errs = make([]error, len(names))
	ctx, cancel := context.WithTimeout(ctx, c.Config.CallTimeout)
	defer cancel()
	var all sync.WaitGroup
	for i, name := range names {
		if c.Closed.Load() {
			errs[i] = limit.ErrClosed
			continue
		}
		all.Go(func() {
			listed := roster.Listed(name)
			if errs[i] = listed.Ping(ctx); errs[i] != nil {
				errs[i] = cmp.Or(node.Mistaken([]*node.Node{listed}, func(*node.Node) error { return errs[i] }), errs[i])
			}
		})
	}
	all.Wait()
	return names, errs
}

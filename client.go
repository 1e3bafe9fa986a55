package shardlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/fence"
	"github.com/shardlimit/shardlimit/internal/lane"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// rememberedKeys is of how many keys of a Family, and some more up to a tenth, a process remembers
// what it knows while no call is under way. A denial takes 300 bytes, all else about 1.4 KB.
const rememberedKeys = 65_536

// Client holds the connections to the nodes and everything that is known of
// the limits on them. Make one per process with New, and Close it at the end.
// It is safe for concurrent use.
type Client struct {
	cfg        Config
	familyKeys int // that each Family remembers
	clock      clock.Clock
	who        participant // the process itself
	nodes      *node.Fleet
	lanes      *lane.Env     // what all lanes share
	records    *register.Env // what all registers share
	tel        *telemetry.Telemetry

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	closed atomic.Bool

	mu       sync.Mutex
	limiters map[string]*core
	families map[string]*Family
}

// New checks the whole configuration and returns a Client. It connects on first
// use, so it succeeds while Redis is away; a configuration that cannot work is
// reported at once, every fault of it, with ErrInvalidConfig.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:        cfg,
		familyKeys: rememberedKeys,
		clock:      clock.Clock{Base: time.Now()},
		who:        newParticipant(cfg.Participant, cfg.Weight).identified(), // once for all limits and keys
		limiters:   make(map[string]*core),
		families:   make(map[string]*Family),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.tel, err = telemetry.New(&c.clock, cfg.MeterProvider, cfg.TracerProvider, c.gauges); err != nil {
		return nil, err
	}
	c.nodes = node.NewFleet(node.Settings{
		Ctx: c.ctx, Clock: &c.clock, Log: cfg.Logger, Telemetry: c.tel, Prefix: cfg.KeyPrefix,
		CallTimeout: cfg.CallTimeout, Spawn: c.spawn,
	}, specsOf(cfg.Nodes))
	c.lanes = &lane.Env{Clock: &c.clock, Telemetry: c.tel, CallTimeout: cfg.CallTimeout, Closed: &c.closed}
	book := record.NewBook(c.nodes, fmt.Sprintf("%016x%016x", chance.Uint64(), chance.Uint64()))
	book.Renamed = func() { c.spawn(func(context.Context) { c.renew() }) }
	c.records = &register.Env{Nodes: c.nodes, Closed: &c.closed, Book: book, Takeover: cfg.NodeTimeout > 0,
		Fence: fence.New(&fence.Env{Nodes: c.nodes, Book: book, After: cmp.Or(cfg.NodeTimeout, DefaultNodeTimeout),
			Changed: c.reconsider})}
	return c, nil
}

// reconsider has the limits follow the nodes that are lost, or back.
func (c *Client) reconsider() {
	c.spawn(func(context.Context) {
		for _, co := range c.recorded() {
			co.reconsider()
		}
	})
}

// Close ends every call that is under way with ErrClosed, stops what runs in
// the background and closes the connections that New made. It may be called
// more than once.
func (c *Client) Close() {
	c.mu.Lock()
	if c.closed.Swap(true) {
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.cancel()
	c.tel.Close()
	c.lanes.Abandon()
	c.nodes.Close()
	c.tasks.Wait()
}

// Limiter returns a handle on the limit of that name (1 to MaxName bytes). If
// the name is new, the limit is declared as given; else the handle joins what is
// stored, whatever limit says, except that a higher Revision replaces the
// stored one. Handles of one name share everything.
//
// While Redis is away the limiter is returned all the same: it answers by the
// outage policy, and declares itself as soon as a majority of the nodes that
// keep the records answers. The error is ErrInvalidName, ErrInvalidLimit or
// ErrClosed, or tells that what is stored under the name cannot be read.
func (c *Client) Limiter(ctx context.Context, name string, limit Limit) (*Limiter, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if err := limit.validate(); err != nil {
		return nil, err
	}
	for {
		co, err := c.core(name, limit)
		if err != nil {
			return nil, err
		}
		switch err := co.join(ctx, limit); {
		case errors.Is(err, register.ErrDeleted): // just now, by another handle
			continue
		case err != nil:
			return nil, err
		}
		co.overruled(limit, co.limitNow())
		return co.limiter(), nil
	}
}

// Open returns a handle on a limit that is stored already, without declaring
// anything: ErrNotFound if there is none of that name, ErrUnavailable if that
// cannot be told because Redis is away.
func (c *Client) Open(ctx context.Context, name string) (*Limiter, error) {
	co, err := open(ctx, c, name, false, c.limiters, c.core)
	if err != nil {
		return nil, err
	}
	if err := co.join(ctx, co.declaration()); err != nil {
		return nil, err
	}
	return co.limiter(), nil
}

// open returns what the Client has under a name, and has it made for the limit that is stored if
// there is nothing.
func open[T any](ctx context.Context, c *Client, name string, family bool, known map[string]*T,
	made func(string, Limit) (*T, error)) (*T, error) {
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	if c.closed.Load() {
		return nil, ErrClosed
	}
	c.mu.Lock()
	has := known[name]
	c.mu.Unlock()
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
func (c *Client) stored(ctx context.Context, name string, family bool) (Limit, error) {
	id := "n:" + name
	if family {
		id = "f:" + name
	}
	co := newCore(c, name, id)
	co.registered(family)
	layout, err := co.register.Look(ctx)
	if err != nil {
		return Limit{}, err
	}
	return limitOf(*layout)
}

// core returns the one core of a name.
func (c *Client) core(name string, limit Limit) (*core, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil, ErrClosed
	}
	co := c.limiters[name]
	if co == nil {
		co = newCore(c, name, "n:"+name)
		co.declared = limit
		co.metrics = telemetry.NewLimiter(name, limit.Algorithm.String())
		co.registered(false)
		c.limiters[name] = co
	}
	return co, nil
}

func (c *Client) forget(co *core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limiters[co.name] == co {
		delete(c.limiters, co.name)
	}
}

// cores returns every limiter with a layout of its own.
func (c *Client) cores() []*core { return byName(c, c.limiters) }

// everyFamily returns every family that this Client has opened.
func (c *Client) everyFamily() []*Family { return byName(c, c.families) }

// byName returns what the Client has under names, in their order.
func byName[T any](c *Client, named map[string]T) (all []T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// recorded returns every limiter and family, which have records.
func (c *Client) recorded() (all []*core) {
	all = c.cores()
	for _, f := range c.everyFamily() {
		all = append(all, f.core)
	}
	return all
}

// spawn runs a task that ends with the Client. It reports false if that is closed.
func (c *Client) spawn(task func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return false
	}
	c.tasks.Go(func() { task(c.ctx) })
	return true
}

// quarantines reports whether a shard that lost its memory must wait.
func (c *Client) quarantines(window time.Duration) bool {
	switch c.cfg.AfterLoss {
	case Quarantine:
		return true
	case Resume:
		return false
	}
	return window <= quarantined
}

// quarantined is the longest window of which a shard that lost its memory is shut for all of it,
// unless Config says otherwise.
const quarantined = time.Minute

// The client's clock, which is that of all its limits.
func (c *Client) now() int64                { return c.clock.Now() }
func (c *Client) suspended() int64          { return c.clock.Suspended() }
func (c *Client) look() (now, asleep int64) { return c.clock.Look() }
func (c *Client) time(at int64) time.Time   { return c.clock.At(at) }

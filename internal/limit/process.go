package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardlimit/shardlimit/internal/chance"
	"github.com/shardlimit/shardlimit/internal/clock"
	"github.com/shardlimit/shardlimit/internal/dispatch"
	"github.com/shardlimit/shardlimit/internal/membership"
	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/record"
	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/internal/telemetry"
)

// Process is what all limits of a process share: the connections, and what is known of the nodes.
type Process struct {
	Config    Config
	Clock     clock.Clock
	Who       Participant // the process itself
	Nodes     *node.Fleet
	Dispatch  *dispatch.Env // what all shards share
	Records   *register.Env // what all registers share
	Telemetry *telemetry.Telemetry
	errors    Errors
	deleted   func(*Core)
	strangers sync.Map // the nodes that a layout names and Config does not; the log was told of them
	background
}

// background is the tasks that a process runs by itself.
type background struct {
	Context context.Context // of them; ends with Close
	cancel  context.CancelFunc
	Closed  atomic.Bool
	mu      sync.Mutex // no task begins once it is closed
	tasks   sync.WaitGroup
}

// Errors make the errors that callers see.
type Errors struct {
	// Failed is the error that tells of a failed shard.
	Failed func(limiter, shard, node string, err error) error
	// Mistake is the error that tells of a node that cannot be used as it is configured.
	Mistake func(node string, cause error, remedy string) error
}

// Events are what a process is told by its parts.
type Events struct {
	Gauges       func(telemetry.Gauges) // are read
	Renamed      func()                 // nodes turned out to be called otherwise
	NodesChanged func()                 // nodes are lost, or back
	Back         func()                 // a node answers again
	Deleted      func(*Core)            // a limit was deleted
}

// NewProcess checks the whole configuration and returns a Process, which connects on first use.
func NewProcess(cfg Config, errs Errors, events Events) (*Process, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Process{
		Config:  cfg,
		errors:  errs,
		deleted: events.Deleted,
		Clock:   clock.Clock{Base: time.Now()},
		Who:     NewParticipant(cfg.Participant, cfg.Weight).Identified(), // once for all limits and keys
	}
	p.Context, p.cancel = context.WithCancel(context.Background())
	if p.Telemetry, err = telemetry.New(&p.Clock, cfg.MeterProvider, cfg.TracerProvider, events.Gauges); err != nil {
		return nil, err
	}
	p.Nodes = node.NewFleet(node.Settings{
		Ctx: p.Context, Clock: &p.Clock, Log: cfg.Logger, Telemetry: p.Telemetry, Prefix: cfg.KeyPrefix,
		CallTimeout: cfg.CallTimeout, Spawn: p.Spawn, Mistake: errs.Mistake, Back: p.inBackground(events.Back),
	}, cfg.Nodes)
	p.Dispatch = &dispatch.Env{Ctx: p.Context, Clock: &p.Clock, Telemetry: p.Telemetry, CallTimeout: cfg.CallTimeout}
	book := record.NewBook(p.Nodes, fmt.Sprintf("%016x%016x", chance.Uint64(), chance.Uint64()))
	book.Renamed = p.inBackground(events.Renamed)
	p.Records = &register.Env{Nodes: p.Nodes, Closed: &p.Closed, Book: book, Takeover: cfg.NodeTimeout > 0,
		Fence: membership.New(&membership.Env{Nodes: p.Nodes, Book: book, After: cmp.Or(cfg.NodeTimeout, DefaultNodeTimeout),
			Changed: p.inBackground(events.NodesChanged)})}
	return p, nil
}

// Close ends every call, the background and the connections. It may be called more than once.
func (p *Process) Close() {
	p.mu.Lock()
	again := p.Closed.Swap(true)
	p.mu.Unlock()
	if again {
		return
	}
	p.cancel()
	p.Telemetry.Close()
	p.Nodes.Close()
	p.tasks.Wait()
}

// Mistaken returns what is wrong with the Config, if that keeps the records from being read.
func (p *Process) Mistaken() error { return p.Nodes.Mistaken(p.Records.Book.Known().Names) }

// Plainly returns the error, or in place of an outage what is wrong with the Config, if that is
// what keeps every node away that is. After Close it is ErrClosed.
func (p *Process) Plainly(err error) error {
	if err != nil && p.Closed.Load() {
		return ErrClosed
	}
	if errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrOverloaded) {
		return cmp.Or(p.Mistaken(), err)
	}
	return err
}

// WaitsOn reports whether callers wait on after a call that ended so. That this process has too
// much to do passes by itself.
func (p *Process) WaitsOn(err error) bool {
	return errors.Is(err, ErrOverloaded) || p.Config.OnOutage == WaitOut && errors.Is(err, ErrUnavailable)
}

// quarantine returns how long at least a shard that lost its memory must wait; 0: not at all.
func (p *Process) quarantine(window time.Duration) time.Duration {
	if p.Config.AfterLoss == Quarantine || p.Config.AfterLoss != Resume && window <= quarantined {
		return node.Relied
	}
	return 0
}

// quarantined is the longest window of which a shard that lost its memory is shut for all of it,
// unless Config says otherwise.
const quarantined = time.Minute

// Now returns the time on the process' clock, which is that of all its limits.
func (p *Process) Now() int64 { return p.Clock.Now() }

// Deadline returns the deadline of ctx on the client's clock, 0 if it has none.
func (p *Process) Deadline(ctx context.Context) int64 {
	at, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return max(1, p.Now()+int64(time.Until(at)))
}

// Gone returns the error for a caller whose context or client has ended, nil if
// the call can go on to another shard.
func (p *Process) Gone(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrClosed) || p.Closed.Load():
		return ErrClosed
	case ctx.Err() != nil:
		return clock.Ended(ctx)
	}
	return nil
}

// Spawn runs a task that ends with the process. It reports false if that is closed.
func (b *background) Spawn(task func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Closed.Load() {
		return false
	}
	b.tasks.Go(func() { task(b.Context) })
	return true
}

// inBackground returns what has a task run in the background.
func (b *background) inBackground(task func()) func() {
	return func() { b.Spawn(func(context.Context) { task() }) }
}

package shardlimit

import (
	"context"
	"sync/atomic"

	"github.com/shardlimit/shardlimit/internal/call"
	"github.com/shardlimit/shardlimit/internal/inside"
	"github.com/shardlimit/shardlimit/internal/limit"
)

// Client holds the connections to the nodes and everything that is known of
// the limits on them. Make one per process with New, and Close it at the end.
// It is safe for concurrent use.
type Client struct {
	in      *call.Client
	refused atomic.Pointer[func(context.Context, Refusal)]
}

// New checks the whole configuration and returns a Client. It connects on first
// use, so it succeeds while Redis is away; a configuration that cannot work is
// reported at once, every fault of it, with ErrInvalidConfig.
func New(cfg Config) (*Client, error) {
	in, err := call.New(cfg.in(), limit.Errors{
		Failed:  func(limiter, shard, node string, err error) error { return &ShardError{limiter, shard, node, err} },
		Mistake: func(node string, cause error, remedy string) error { return &ConfigError{node, cause, remedy} },
	})
	if err != nil {
		return nil, err
	}
	return &Client{in: in}, nil
}

// Close ends every call that is under way with ErrClosed, stops what runs in
// the background and closes the connections that New made. It may be called
// more than once. It takes up to two seconds while a node is silent.
func (c *Client) Close() { c.in.Close() }

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
	in, err := c.in.Declare(ctx, call.Limiters, name, limit.in())
	if err != nil {
		return nil, err
	}
	return &Limiter{in.Limiter(), c}, nil
}

// Open returns a handle on a limit that is stored already, without declaring
// anything: ErrNotFound if there is none of that name, ErrUnavailable if that
// cannot be told because Redis is away.
func (c *Client) Open(ctx context.Context, name string) (*Limiter, error) {
	in, err := c.in.Open(ctx, call.Limiters, name)
	if err != nil {
		return nil, err
	}
	return &Limiter{in.Limiter(), c}, nil
}

// Family declares or joins a limit that holds for every key by itself, under the rules of
// Client.Limiter. Each key has one shard, and grants first come, first served, whoever calls; the
// keys spread over the nodes. So Shards is 0 or 1, and Lease 0: else ErrInvalidLimit. A Limiter has
// fair or weighted parts, and shards on several servers.
func (c *Client) Family(ctx context.Context, name string, limit Limit) (*Family, error) {
	in, err := c.in.Declare(ctx, call.Families, name, limit.in())
	if err != nil {
		return nil, err
	}
	return &Family{in.Of, c}, nil
}

// OpenFamily returns a handle on a family that is stored already, without declaring anything.
// Errors are those of Open.
func (c *Client) OpenFamily(ctx context.Context, name string) (*Family, error) {
	in, err := c.in.Open(ctx, call.Families, name)
	if err != nil {
		return nil, err
	}
	return &Family{in.Of, c}, nil
}

// Refusal is a call that was refused.
type Refusal struct {
	Limiter     string // the name of the limit, or of the family
	Key         string // of a family
	Participant string // of a limit
	Permits     int64  // that were asked for
	Decision    Decision
}

// OnRefusal has f hear of every call on limits of this Client that is refused: the denials of Allow
// and its like, ErrWaitTooLong of Wait, and what Reserve refuses. Of a Set it is the limit that
// refuses for longest. f takes the place of the one before; nil means that nobody hears.
//
// It is called in the goroutine of the call that is refused, with its context, just before that
// returns. So the call waits for it, many goroutines may be in it at the same time, and its panic
// is one of the call. A limit may be asked in it.
func (c *Client) OnRefusal(f func(ctx context.Context, r Refusal)) {
	if f == nil {
		c.refused.Store(nil)
		return
	}
	c.refused.Store(&f)
}

// Rebalance calls Limiter.Rebalance for every limit, and Family.Rebalance for every family, that
// this Client has opened.
func (c *Client) Rebalance(ctx context.Context) error { return c.in.Rebalance(ctx) }

// NodeState is whether a node answers.
type NodeState struct {
	Name string // of the node, see Node.Name
	Err  error  // why it does not answer, such as a *ConfigError; nil if it does
}

// Ping asks every node of the Config, at once, whether it answers, and
// returns one NodeState for each, in that order. It spends nothing and takes at most
// Config.CallTimeout, which also bounds connecting. Nodes that are away are asked about once a
// second at most; between, what they last said is returned. Of a cluster it suffices that a part
// answers. After Close every Err is ErrClosed.
//
// It is meant for health checks; calls for permits need none.
func (c *Client) Ping(ctx context.Context) []NodeState {
	names, errs := c.in.Ping(ctx)
	states := make([]NodeState, len(names))
	for i, name := range names {
		states[i] = NodeState{name, errs[i]}
	}
	return states
}

// Tests in other packages look into the engine with these.
func init() {
	inside.Client = func(of any) *call.Client { return of.(*Client).in }
	inside.Limiter = func(of any) *call.Limiter { return &of.(*Limiter).in }
	inside.Family = func(of any) *call.Family { return of.(*Family).in }
}

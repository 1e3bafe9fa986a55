package dispatch

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// call is one call to a shard under way. Every call to a shard begins with begin and ends with
// Finish, and what it heard goes through heard or looked: so there is one place for the breaker,
// metrics and span (see node.Call), for what the process learns, and for what the limit must hear.
type call struct {
	node.Call
	lane      *Lane
	operation telemetry.Operation
}

// begin begins a call that serves so many callers. See node.Begin.
func (l *Lane) begin(ctx context.Context, op telemetry.Operation, serves int64, least time.Duration,
	links []trace.Link) (context.Context, call, error) {
	about := telemetry.Call{Operation: op, Limiter: l.Metrics, Shard: l.Tag(), Serves: serves}
	ctx, c, err := l.Node.Begin(ctx, l.Slot, about, least, links)
	return ctx, call{c, l, op}, err
}

// heard takes in what the shard said of itself and has free.
func (c *call) heard(t *Terms, received int64, r *script.TakeReply) {
	c.lane.Known.learn(c.Sent, received, c.Began, t, r)
	c.tell(t, r.Status, r.Epoch)
}

// tell lets the limit learn of another epoch or a loss.
func (c *call) tell(t *Terms, status script.Status, epoch int64) {
	if status != script.OK || epoch != t.Epoch {
		c.lane.Limit.Learned(c.lane, News{Operation: c.operation, Status: status, Believed: t.Epoch, Epoch: epoch})
	}
}

// looked takes in what a look at the shard has found.
func (c *call) looked(r *script.PeekReply) {
	if r.Free > 0 {
		c.lane.Known.open() // it was empty and got permits back, perhaps from a collection of another process
	}
	if r.Status != script.Absent {
		c.tell(c.lane.Terms.Load(), script.OK, r.Epoch)
	}
}

// Usable reports whether calls for permits may be made to the shard now.
func (l *Lane) Usable() bool { return l.Place().Usable() }

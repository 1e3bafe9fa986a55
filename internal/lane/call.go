package lane

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/node"
	"github.com/shardlimit/shardlimit/internal/telemetry"
	"github.com/shardlimit/shardlimit/script"
)

// call is one call to a shard under way. Every call to a shard begins with begin and ends with
// finish, and what it heard goes through heard or looked: so there is one place for the breaker,
// metrics and span (see node.Call), for what the process learns, for what the limit must hear, and
// for keys that hold somebody else's data.
type call struct {
	node.Call
	lane      *Lane
	operation telemetry.Operation
}

// begin begins a call that serves so many callers. See node.Begin.
func (l *Lane) begin(ctx context.Context, op telemetry.Operation, serves int64, least time.Duration,
	links []trace.Link) (context.Context, call, error) {
	ctx, c, err := l.Node.Begin(ctx, l.Slot, l.about(op, serves), least, links)
	return ctx, call{c, l, op}, err
}

func (l *Lane) about(op telemetry.Operation, serves int64) telemetry.Call {
	return telemetry.Call{Operation: op, Limiter: l.Metrics, Shard: l.Tag(), Serves: serves}
}

// finish ends the call, and returns when that was.
func (c *call) finish(ctx context.Context, err error) (received int64) {
	received = c.Finish(ctx, err)
	if err != nil {
		c.shun(err)
	}
	return received
}

// shun keeps calls away from the shard for a while if its error says that they would end so again.
func (c *call) shun(err error) {
	if c.mustShun(err) {
		c.lane.avoid(err)
	}
}

// heard takes in what the shard said of itself and has free.
func (c *call) heard(t *Terms, received int64, r *script.TakeReply) {
	c.lane.known.learn(c.Sent, received, c.Began, t.Window, r)
	c.tell(t, r.Status, r.Epoch)
}

// tell lets the limit hear of another epoch or a loss.
func (c *call) tell(t *Terms, status script.Status, epoch int64) {
	if status != script.OK || epoch != t.Epoch {
		c.lane.Limit.Heard(c.lane, News{Operation: c.operation, Status: status, Believed: t.Epoch, Epoch: epoch})
	}
}

// looked takes in what a look at the shard has found.
func (c *call) looked(r *script.PeekReply) {
	if r.Free > 0 {
		c.lane.known.open() // it was empty and got permits back, perhaps from a collection of another process
	}
	if r.Status != script.Absent {
		c.tell(c.lane.Terms.Load(), script.OK, r.Epoch)
	}
}

// mustShun reports whether calls for permits that end so would end so again: other or damaged data
// under the shard's keys, or a user who may not run what a script calls.
func (c *call) mustShun(err error) bool {
	if errors.Is(err, script.ErrForeignState) || errors.Is(err, script.ErrMalformedReply) {
		return true
	}
	switch c.operation {
	case telemetry.Take, telemetry.Reserve, telemetry.Propose:
	default: // what a user may not run there, may be needless for a take
		return false
	}
	text, _ := script.Said(err)
	return strings.HasPrefix(text, "ACL failure in script") ||
		strings.HasPrefix(text, "The user executing the script") || strings.HasPrefix(text, "NOPERM")
}

// avoid keeps calls away for a while from keys that hold somebody else's data.
func (l *Lane) avoid(found error) {
	l.shunned.Store(&found)
	l.shunUntil.Store(l.env.Clock.Now() + int64(time.Second))
}

// Shunning is why calls are kept away from the shard's keys; nil if they are not.
func (l *Lane) Shunning(now int64) error {
	if now < l.shunUntil.Load() {
		return *l.shunned.Load()
	}
	return nil
}

// Ready reports whether calls may be sent to the shard: its node is believed to answer, and its
// keys to hold what they should.
func (l *Lane) Ready(now int64) bool {
	return l.Node.Ready(l.Slot) && now >= l.shunUntil.Load()
}

// Usable is ready, and has a node that is away looked at again if it is time for that.
func (l *Lane) Usable(now int64) bool {
	if t := l.Terms.Load(); t.Fence != nil && t.Fence.Bars(l.Node.Name, l.Life) {
		return false
	}
	return l.Reachable(now)
}

// Reachable reports whether other calls than for permits may be made to the shard now.
func (l *Lane) Reachable(now int64) bool {
	if l.Node.Ready(l.Slot) {
		return now >= l.shunUntil.Load()
	}
	l.Node.Revive(l.Slot, l.about(telemetry.Probe, 0), l)
	return false
}

// Probe is a call that spends nothing.
func (l *Lane) Probe(ctx context.Context, c *node.Call) error {
	_, err := c.Scripts.Peek(ctx, l.Ref)
	return err
}

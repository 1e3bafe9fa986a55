package shardlimit

import (
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/limit"
)

// Bounds and defaults of a Config.
const (
	MaxName            = limit.MaxName            // 512 bytes in a name, a key or a prefix
	DefaultCallTimeout = limit.DefaultCallTimeout // 100 ms
	DefaultNodeTimeout = limit.DefaultNodeTimeout // 5 s
	DefaultKeyPrefix   = limit.DefaultKeyPrefix   // "sl:"
)

// OutagePolicy says what a call answers when no shard does.
type OutagePolicy uint8

// The outage policies.
const (
	// FailClosed returns ErrUnavailable. Under all policies a mistake that waiting does not mend is
	// a *ConfigError.
	FailClosed OutagePolicy = OutagePolicy(limit.FailClosed)
	// FailOpen allows, and marks the Decision as Degraded.
	FailOpen OutagePolicy = OutagePolicy(limit.FailOpen)
	// FailLocal lets this process enforce its part of the limit by itself:
	// Permits divided by the number of participants last heard of, at least
	// one. What this process was granted in the running window counts. Decisions
	// are marked as Degraded. A process that has not yet heard of the others goes by
	// Config.Participants; if that is 0 it takes the whole limit for itself.
	FailLocal OutagePolicy = OutagePolicy(limit.FailLocal)
	// WaitOut is FailClosed for calls that answer at once. Wait, WaitN and Acquire wait until a
	// shard answers or their context ends.
	WaitOut OutagePolicy = OutagePolicy(limit.WaitOut)
)

// LossPolicy says what a shard does whose node came back without its memory
// (restarted empty, flushed) inside the window. 0 is Quarantine for windows up to a minute, and
// Resume for longer ones. Of keys of a family a restart is noticed, and no flush or eviction.
type LossPolicy uint8

// The loss policies.
const (
	// Quarantine grants nothing until what was forgotten has left the window, and for at least 5 s.
	// What was reserved there is used beside what is granted then. Without reservations the limit
	// is never exceeded.
	// Where no other shard can be asked, FailOpen and FailLocal answer as in an outage; else it is
	// a denial, which tells when to come again.
	Quarantine LossPolicy = LossPolicy(limit.Quarantine)
	// Resume starts fresh: at most one share of the shard, once for each loss, is granted beyond
	// the limit.
	Resume LossPolicy = LossPolicy(limit.Resume)
)

// Config configures a Client. Only Nodes is required.
type Config struct {
	// Nodes is one Redis Cluster, or any number of independent endpoints. All
	// processes that share limits should list the same nodes; names and order
	// do not matter. While lists differ limits hold, but a process cannot use what is on nodes it
	// does not know. A process that starts anew may have another list, see
	// docs/howto/change-nodes.md.
	Nodes []Node
	// Participant names this process among those that share a limit. The
	// default is host-pid-random.
	Participant string
	// Participants is how many processes are expected to share a limit, at most; 0 means
	// unknown. Only FailLocal goes by it: a process divides limits by this number, or by the
	// number that it last heard of if that is more. So as long as no more processes run, they
	// admit no more than the limit together, or one permit each if that is more, even those
	// that started during the outage. With 0 each of those admits up to the whole limit.
	Participants int64
	// Weight is this process' part of a contended limit relative to the other
	// participants, MinWeight to MaxWeight; 0 means 1.
	Weight float64
	// CallTimeout bounds the time that one decision may spend on Redis; 0 means DefaultCallTimeout.
	// A shorter context wins. A single script call gets half of it when there is another shard to
	// go to. Peek and Participants get as long; what declares, changes, resets or deletes a limit
	// gets it for each step, but at least two seconds for an exchange with the nodes that keep the
	// record.
	CallTimeout time.Duration
	// OnOutage is what a call answers when no shard does.
	OnOutage OutagePolicy
	// NodeTimeout, at least a second, has what a lost node has of a limit taken over by the others:
	// of limits that this process declares first. A node is lost to all once one process had no
	// answer from it for so long and a majority of three nodes (of five where there are eight or
	// more) agrees; what it granted must have left the window, and then its share is raised
	// elsewhere. When it has answered for as long it gets a part again. The price: where no such
	// majority can be reached for five seconds the outage policy answers, although shards may be
	// there. See docs/failures.md.
	//
	// With 0 limits are declared without. A limit keeps what it was declared with, whoever joins or
	// changes it: of one with takeover, a node is lost to a process without NodeTimeout after
	// DefaultNodeTimeout. Limits declared over fewer than three nodes, and those of Scope
	// PerParticipant, have none.
	NodeTimeout time.Duration
	// AfterLoss is what a shard does after its node lost its memory; 0 means Quarantine for windows
	// up to a minute, Resume above.
	AfterLoss LossPolicy
	// KeyPrefix begins every Redis key; "" means DefaultKeyPrefix. It must not contain braces.
	KeyPrefix string
	// MeterProvider receives the metrics; nil means the global one.
	MeterProvider metric.MeterProvider
	// TracerProvider receives the spans; nil means the global one.
	TracerProvider trace.TracerProvider
	// Logger is told about nodes that go and come and about layouts that change; nil means silence.
	Logger *slog.Logger
}

// in returns the Config as the engine has it.
func (c *Config) in() limit.Config {
	in := limit.Config{
		Participant: c.Participant, Participants: c.Participants, Weight: c.Weight,
		CallTimeout: c.CallTimeout, OnOutage: limit.OutagePolicy(c.OnOutage), NodeTimeout: c.NodeTimeout,
		AfterLoss: limit.LossPolicy(c.AfterLoss), KeyPrefix: c.KeyPrefix,
		MeterProvider: c.MeterProvider, TracerProvider: c.TracerProvider, Logger: c.Logger,
	}
	for i := range c.Nodes {
		in.Nodes = append(in.Nodes, c.Nodes[i].in())
	}
	return in
}

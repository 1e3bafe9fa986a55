package shardlimit

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Bounds and defaults of a Config.
const (
	MaxName            = 512 // bytes in the name of a limiter, a key of a family, a participant or a prefix
	DefaultCallTimeout = 100 * time.Millisecond
	DefaultNodeTimeout = 5 * time.Second
	DefaultKeyPrefix   = "sl:"
)

// OutagePolicy says what a call answers when no shard does.
type OutagePolicy uint8

// The outage policies.
const (
	// FailClosed returns ErrUnavailable.
	FailClosed OutagePolicy = iota
	// FailOpen allows, and marks the Decision as Degraded.
	FailOpen
	// FailLocal lets this process enforce its part of the limit by itself:
	// Permits divided by the number of participants last heard of, at least
	// one. What this process was granted in the running window counts. Decisions
	// are marked as Degraded. A process that has not yet heard of the others goes by
	// Config.Participants; if that is 0 it takes the whole limit for itself.
	FailLocal
	// WaitOut is FailClosed for calls that answer at once. Wait, WaitN and Acquire wait until a
	// shard answers or their context ends.
	WaitOut
)

// LossPolicy says what a shard does whose node came back without its memory
// (restarted empty, flushed) inside the window. 0 is Quarantine for windows up to a minute, and
// Resume for longer ones. That a key of a family was flushed or evicted alone is not noticed.
type LossPolicy uint8

// The loss policies.
const (
	// Quarantine grants nothing until what was forgotten has left the window. What was reserved
	// there is used beside what is granted then. Without reservations the limit is never exceeded.
	// Where no other shard can be asked, FailOpen and FailLocal answer as in an outage; else it is
	// a denial, which tells when to come again.
	Quarantine LossPolicy = iota + 1
	// Resume starts fresh: at most one share of the shard, once for each loss, is granted beyond
	// the limit.
	Resume
)

// Node is a Redis endpoint that can hold shards: one server, a Sentinel set,
// or a whole Redis Cluster.
type Node struct {
	// Name is a label for logs, metrics and Drain; keep it when the address changes. The default is
	// the first address. Processes may call a server differently: it remembers the name under which
	// it was used first with the key prefix, and by that its shards are placed.
	Name string
	// Redis says how to connect. shardlimit connects on first use and closes
	// the connection in Close. Some options are always set: pipelining on,
	// client-side caching off, no connection lifetime (a connection that
	// expires would re-send a spend), and a bounded dial that does not depend
	// on a caller's context.
	Redis rueidis.ClientOption
	// Client is an existing client to use instead. It is not closed. It should
	// have been made with AlwaysPipelining and without ConnLifetime.
	Client rueidis.Client
	// Weight is the node's part of the shards relative to the others; 0 means 1.
	Weight float64
	// Drain says that the node is about to go: it gets no new shards, and Rebalance or
	// SetLimit moves away what it has. Until then it is used as before.
	Drain bool
}

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
	// there. See docs/takeover.md.
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

// withDefaults returns a checked copy with every default filled in.
func (c Config) withDefaults() (Config, error) {
	nodes, err := checkNodes(c.Nodes)
	c.Nodes = nodes
	if c.Participant == "" {
		c.Participant = defaultParticipant()
	}
	c.Weight = cmp.Or(c.Weight, 1)
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.KeyPrefix = cmp.Or(c.KeyPrefix, DefaultKeyPrefix)
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	if c.TracerProvider == nil {
		c.TracerProvider = otel.GetTracerProvider()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(err, c.check())
}

// check says what cannot work, of all but the nodes, once defaults are filled in.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, a...)...))
	}
	if len(c.Participant) > MaxName {
		bad("Participant has %d bytes; at most %d are allowed", len(c.Participant), MaxName)
	}
	if c.Participants < 0 {
		bad("Participants is %d; it must not be negative", c.Participants)
	}
	if !fairWeight(c.Weight) {
		bad("Weight is %v; it must be %v to %v", c.Weight, MinWeight, MaxWeight)
	}
	if c.NodeTimeout != 0 && c.NodeTimeout < time.Second {
		bad("NodeTimeout is %s; it must be at least 1s, or 0", c.NodeTimeout)
	}
	if c.CallTimeout < time.Millisecond {
		bad("CallTimeout is %s; it must be at least 1ms", c.CallTimeout)
	}
	if c.OnOutage > WaitOut {
		bad("OnOutage %d is not a policy", c.OnOutage)
	}
	if c.AfterLoss > Resume {
		bad("AfterLoss %d is not a policy", c.AfterLoss)
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") || len(c.KeyPrefix) > MaxName {
		bad("KeyPrefix must have no braces and at most %d bytes", MaxName)
	}
	return errors.Join(errs...)
}

func defaultParticipant() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand aborts the program instead
	if len(host) > 64 {
		host = host[:64]
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}

func checkName(what, name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: the %s has %d bytes, it must have 1 to %d", ErrInvalidName, what, len(name), MaxName)
	}
	return nil
}

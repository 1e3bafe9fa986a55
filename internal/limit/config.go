package limit

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardlimit/shardlimit/internal/node"
)

// Bounds and defaults of a Config.
const (
	MaxName            = 512 // bytes in the name of a limiter, a key of a family, a participant or a prefix
	DefaultCallTimeout = 100 * time.Millisecond
	DefaultNodeTimeout = 5 * time.Second
	DefaultKeyPrefix   = "sl:"
)

// OutagePolicy says what a call answers when no shard does, see shardlimit.OutagePolicy.
type OutagePolicy uint8

// The outage policies.
const (
	FailClosed OutagePolicy = iota
	FailOpen
	FailLocal
	WaitOut
)

// LossPolicy says what a shard does whose node lost its memory, see shardlimit.LossPolicy.
type LossPolicy uint8

// The loss policies.
const (
	Quarantine LossPolicy = iota + 1
	Resume
)

// Config configures a Client, see shardlimit.Config.
type Config struct {
	Nodes          []node.Spec
	Participant    string
	Participants   int64
	Weight         float64
	CallTimeout    time.Duration
	OnOutage       OutagePolicy
	NodeTimeout    time.Duration
	AfterLoss      LossPolicy
	KeyPrefix      string
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Logger         *slog.Logger
}

// withDefaults returns a checked copy with every default filled in.
func (c Config) withDefaults() (Config, error) {
	specs, problems := node.Check(c.Nodes, MaxName)
	c.Nodes = specs
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
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, c.check(problems)
}

// check returns what cannot work, besides the problems of the nodes, once defaults are filled in.
func (c *Config) check(problems []error) error {
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, a...)...))
	}
	for _, problem := range problems {
		bad("%w", problem)
	}
	if len(c.Nodes) == 0 {
		bad("Nodes is empty; list at least one Redis endpoint")
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
	return fmt.Sprintf("%s-%d-%x", host[:min(len(host), 64)], os.Getpid(), random)
}

// CheckName returns an error if the name has an impossible length. what says whose name it is.
func CheckName(what, name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: the %s has %d bytes, it must have 1 to %d", ErrInvalidName, what, len(name), MaxName)
	}
	return nil
}

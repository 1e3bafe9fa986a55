package telemetry

import (
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Limiter is the ready-made attribute sets of one limiter. All keys of a family share one.
type Limiter struct {
	name     string
	decision atomic.Pointer[decisionSets]
	permits  [outcomes][]metric.AddOption
	settled  [2][]metric.AddOption // returned, charged
	limiter  []metric.AddOption
	took     [outcomes][]metric.RecordOption
	batch    []metric.RecordOption
}

// decisionSets are the attribute sets of decisions by an algorithm, those that were needed. Of
// denials there is one for each reason, behind the outcomes.
type decisionSets struct {
	algorithm string
	sets      [outcomes + Outcome(reasons)][sources]atomic.Pointer[[]metric.AddOption]
}

// NewLimiter returns the attribute sets of a limiter that counts by an algorithm.
func NewLimiter(limiter, algorithm string) *Limiter {
	name := attribute.String("limiter", limiter)
	l := &Limiter{name: limiter, limiter: add(name), batch: record(name)}
	l.CountsBy(algorithm)
	for i := range outcomes {
		result := attribute.String("outcome", i.String())
		l.permits[i] = add(name, result)
		l.took[i] = record(name, result)
	}
	for i, outcome := range []string{"returned", "charged"} {
		l.settled[i] = add(name, attribute.String("outcome", outcome))
	}
	l.permits[Allowed] = add(name, attribute.String("outcome", "granted"))
	return l
}

func add(kv ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(kv...))}
}

func record(kv ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(kv...))}
}

// CountsBy notes by which algorithm the limit counts now.
func (l *Limiter) CountsBy(algorithm string) {
	if d := l.decision.Load(); d != nil && d.algorithm == algorithm {
		return
	}
	l.decision.Store(&decisionSets{algorithm: algorithm})
}

// decided returns the attribute set of a decision.
func (l *Limiter) decided(d *Decision) []metric.AddOption {
	by, kind := l.decision.Load(), d.Outcome
	if d.Reason != 0 {
		kind = outcomes + Outcome(d.Reason)
	}
	set := &by.sets[kind][d.Source]
	if made := set.Load(); made != nil {
		return *made
	}
	attrs := []attribute.KeyValue{attribute.String("limiter", l.name), attribute.String("algorithm", by.algorithm),
		attribute.String("outcome", d.Outcome.String()), attribute.String("source", d.Source.String())}
	if d.Reason != 0 {
		attrs = append(attrs, attribute.String("reason", d.Reason.String()))
	}
	made := add(attrs...)
	set.Store(&made)
	return made
}

// Node is the ready-made attribute sets of script calls to a node.
type Node struct {
	name string
	took [operations][2][]metric.RecordOption // ok, error
}

// NewNode returns the attribute sets of a node.
func NewNode(name string) *Node {
	n := &Node{name: name}
	for op := range operations {
		for i, outcome := range []string{"ok", "error"} {
			n.took[op][i] = record(attribute.String("node", name), attribute.String("operation", op.String()),
				attribute.String("outcome", outcome))
		}
	}
	return n
}

// Operation is what a script call is for. Metrics and spans call it by its name.
type Operation uint8

// The operations.
const (
	Take Operation = iota
	Propose
	Reserve
	Peek
	Probe // whether a node answers again
	Settle
	Clear
	Drop
	Participants
	Locate // where the records are
	Vote   // of a place of a record
	operations
)

var operationNames = [operations]string{
	"take", "propose", "reserve", "peek", "probe", "settle", "clear", "drop", "participants",
	"locate", "vote",
}

func (o Operation) String() string { return operationNames[o] }

// Rare reports whether what fails of it tells nothing of takes: a user of the server may lack the
// right to it alone.
func (o Operation) Rare() bool {
	return o == Settle || o == Clear || o == Drop || o == Participants
}

// Outcome is how a decision ended.
type Outcome uint8

// The outcomes.
const (
	Allowed Outcome = iota
	Denied
	Failed
	Degraded
	Shadowed
	Canceled // by the caller, so it says nothing of nodes
	Shed     // this process had too many
	outcomes
)

func (o Outcome) String() string {
	return [...]string{"allowed", "denied", "error", "degraded", "shadowed", "canceled", "shed"}[o]
}

// Source is where a decision was made.
type Source uint8

// The sources.
const (
	Redis  Source = iota // a script call
	Memory               // this process knew that nothing was free
	Lease                // permits that this process held
	Local                // the outage policy
	sources
)

func (s Source) String() string { return [...]string{"redis", "memory", "lease", "local"}[s] }

// Reason is why a call was denied. Where several hold, the greatest one is told.
type Reason uint8

// The reasons; 0: it was not denied.
const (
	Full          Reason = iota + 1
	Owes                 // permits that were booked ahead, or charged beyond what was free
	Outage               // nodes do not answer
	LostMemory           // a shard is in quarantine
	HeldForOthers        // what is free is kept for other participants
	Late                 // this process could not ask in time
	Closed               // by the mode of the limit
	reasons
)

func (r Reason) String() string {
	return [...]string{"", "full", "owes", "outage", "lost_memory", "held_for_others", "late", "closed"}[r]
}

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
	limiter  []metric.AddOption
	took     [outcomes][]metric.RecordOption
	batch    []metric.RecordOption
}

// decisionSets are the attribute sets of decisions by an algorithm.
type decisionSets struct {
	algorithm string
	sets      [outcomes][sources][]metric.AddOption
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
	d := &decisionSets{algorithm: algorithm}
	for i := range outcomes {
		for s := range sources {
			d.sets[i][s] = add(attribute.String("limiter", l.name), attribute.String("algorithm", algorithm),
				attribute.String("outcome", i.String()), attribute.String("source", s.String()))
		}
	}
	l.decision.Store(d)
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

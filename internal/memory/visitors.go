// Package memory is what a process remembers in bounded memory beside what it knows of shards:
// what is reserved and not due yet, and which participants it calls
// for.
package memory

import (
	"hash/maphash"

	lru "github.com/hashicorp/golang-lru/v2"
)

// mostVisitors is how many participants other than the process itself a Client remembers, over all
// its limits and the keys of all its families. One that was forgotten works as before: its next
// call asks Redis again. It may take about 1 KB, or 4 KB in a limit of Scope PerParticipant.
const (
	mostVisitors   = 16_384
	visitorStripes = 16 // so that callers seldom wait for each other
)

// Visitors are the participants that a Client remembers, least recently used first out. They are
// safe for concurrent use.
type Visitors struct {
	seed    maphash.Seed
	stripes [visitorStripes]*lru.Cache[visitor, struct{}]
}

// visitor is a participant of one limit.
type visitor struct {
	host Host
	name string
}

// Host is what a limit keeps of its visitors.
type Host interface{ ForgetVisitor(name string) }

// NewVisitors returns those of a Client that has seen none.
func NewVisitors() *Visitors {
	vs := &Visitors{seed: maphash.MakeSeed()}
	for i := range vs.stripes {
		vs.stripes[i], _ = lru.NewWithEvict(mostVisitors/visitorStripes, // fails only for a size below 1
			func(v visitor, _ struct{}) { v.host.ForgetVisitor(v.name) })
	}
	return vs
}

// Saw notes that a participant is used, after the host has it. It may have the host forget it or
// another one: a host must not hold its lock.
func (vs *Visitors) Saw(h Host, name string) {
	v := visitor{h, name}
	vs.stripe(v).Add(v, struct{}{})
}

// Leave has the host forget a participant.
func (vs *Visitors) Leave(h Host, name string) {
	v := visitor{h, name}
	vs.stripe(v).Remove(v)
}

func (vs *Visitors) stripe(v visitor) *lru.Cache[visitor, struct{}] {
	return vs.stripes[maphash.Comparable(vs.seed, v)%visitorStripes]
}

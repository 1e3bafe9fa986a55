package shardlimit

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

// visitors are the participants that a Client remembers, least recently used first out.
type visitors struct {
	seed    maphash.Seed
	stripes [visitorStripes]*lru.Cache[visitor, struct{}]
}

// visitor is a participant of one limit.
type visitor struct {
	host host
	name string
}

// host is what a limit keeps of its visitors.
type host interface{ forget(name string) }

func newVisitors() *visitors {
	vs := &visitors{seed: maphash.MakeSeed()}
	for i := range vs.stripes {
		vs.stripes[i], _ = lru.NewWithEvict(mostVisitors/visitorStripes, // fails only for a size below 1
			func(v visitor, _ struct{}) { v.host.forget(v.name) })
	}
	return vs
}

// saw notes that a participant is used, after the host has it. It may have the host forget it or
// another one: a host must not hold its lock.
func (vs *visitors) saw(h host, name string) {
	v := visitor{h, name}
	vs.stripe(v).Add(v, struct{}{})
}

// leave has the host forget a participant.
func (vs *visitors) leave(h host, name string) {
	v := visitor{h, name}
	vs.stripe(v).Remove(v)
}

func (vs *visitors) stripe(v visitor) *lru.Cache[visitor, struct{}] {
	return vs.stripes[maphash.Comparable(vs.seed, v)%visitorStripes]
}

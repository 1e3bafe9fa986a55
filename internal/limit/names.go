package limit

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
	"github.com/shardlimit/shardlimit/script"
)

// Algorithm says how permits are counted, see shardlimit.Algorithm.
type Algorithm = script.Algorithm

// The algorithms.
const (
	SlidingLog     = script.AlgorithmSlidingLog
	SlidingCounter = script.AlgorithmSlidingCounter
	FixedWindow    = script.AlgorithmFixedWindow
	TokenBucket    = script.AlgorithmTokenBucket
	LeakyBucket    = script.AlgorithmLeakyBucket
	Algorithms     = LeakyBucket + 1
)

// AlgorithmNamed returns the algorithm of that name.
func AlgorithmNamed(name string) (Algorithm, error) {
	return named[Algorithm](script.AlgorithmNames[:], name, "algorithm")
}

// Scope says whom a Limit holds for, see shardlimit.Scope.
type Scope uint8

// The scopes.
const (
	Global Scope = iota
	PerParticipant
)

var scopeNames = names{"global", "per_participant"}

// String returns the name under which the scope is reported.
func (s Scope) String() string { return scopeNames.of(uint8(s), "scope") }

// Mode says what becomes of calls on a limit, see shardlimit.Mode.
type Mode uint8

// The modes.
const (
	Enforced Mode = iota
	Shadow
	Off
	Closed
	modes
)

var modeNames = names{"enforced", "shadow", "off", "closed"}

// String returns the name under which the mode is stored and reported.
func (m Mode) String() string { return modeNames.of(uint8(m), "mode") }

// Lenient reports whether no call is refused.
func (m Mode) Lenient() bool { return m == Shadow || m == Off }

// AsksNobody reports whether calls are decided without a shard.
func (m Mode) AsksNobody() bool { return m == Off || m == Closed }

// HeardAfter is how long it takes at most until a process that uses a limit has heard of a change.
const HeardAfter = 15 * time.Second

// names are those of the values of an enumeration, from 0 on.
type names []string

// of returns the name of a value; what says of which enumeration.
func (ns names) of(v uint8, what string) string {
	if int(v) < len(ns) {
		return ns[v]
	}
	return fmt.Sprintf("%s(%d)", what, v)
}

// named returns the value of that name, the first one of none; of an unknown one, the first that
// there is not.
func named[E ~uint8](ns names, name, what string) (E, error) {
	if i := slices.Index(ns, cmp.Or(name, ns[0])); i >= 0 {
		return E(i), nil
	}
	return E(len(ns)), fmt.Errorf("%w: %s %q", register.ErrUnreadable, what, name)
}

// stored returns the name of a value in a record: nothing for the first.
func (ns names) stored(v uint8) string {
	if v == 0 {
		return ""
	}
	return ns[v]
}

package limit

import (
	"cmp"
	"time"
)

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

// HeardAfter is how long it takes at most until a process that uses a limit has heard of a change.
const HeardAfter = 15 * time.Second

var modeNames = names{"enforced", "shadow", "off", "closed"}

// String returns the name under which the mode is stored and reported.
func (m Mode) String() string { return modeNames.of(uint8(m), "mode") }

func modeNamed(name string) (Mode, error) {
	m, err := modeNames.find(cmp.Or(name, modeNames[Enforced]), "mode")
	return Mode(m), err
}

// Lenient reports whether no call is refused.
func (m Mode) Lenient() bool { return m == Shadow || m == Off }

// AsksNobody reports whether calls are decided without a shard.
func (m Mode) AsksNobody() bool { return m == Off || m == Closed }

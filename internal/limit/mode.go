package limit

import (
	"fmt"
	"time"

	"github.com/shardlimit/shardlimit/internal/register"
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

var modeNames = [modes]string{"enforced", "shadow", "off", "closed"}

// String returns the name under which the mode is stored and reported.
func (m Mode) String() string {
	if m < modes {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// stored returns the name of the mode in a record: nothing for Enforced, as before there were
// others.
func (m Mode) stored() string {
	if m == Enforced {
		return ""
	}
	return m.String()
}

func modeNamed(name string) (Mode, error) {
	for m := range modes {
		if name == m.stored() {
			return m, nil
		}
	}
	return modes, fmt.Errorf("%w: mode %q", register.ErrUnreadable, name)
}

// Lenient reports whether no call is refused.
func (m Mode) Lenient() bool { return m == Shadow || m == Off }

// AsksNobody reports whether calls are decided without a shard.
func (m Mode) AsksNobody() bool { return m == Off || m == Closed }

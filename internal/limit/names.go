package limit

import (
	"fmt"
	"slices"

	"github.com/shardlimit/shardlimit/internal/register"
)

// names are those of the values of an enumeration, from 0 on.
type names []string

// of returns the name of a value; what says of which enumeration.
func (ns names) of(v uint8, what string) string {
	if int(v) < len(ns) {
		return ns[v]
	}
	return fmt.Sprintf("%s(%d)", what, v)
}

// find returns the value of that name; of an unknown one, the first that there is not.
func (ns names) find(name, what string) (uint8, error) {
	if i := slices.Index(ns, name); i >= 0 {
		return uint8(i), nil
	}
	return uint8(len(ns)), fmt.Errorf("%w: %s %q", register.ErrUnreadable, what, name)
}

// stored returns the name of a value in a record: nothing for the first, as before there were
// others.
func (ns names) stored(v uint8) string {
	if v == 0 {
		return ""
	}
	return ns[v]
}

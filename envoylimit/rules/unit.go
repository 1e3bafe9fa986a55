package rules

import (
	"strings"
	"time"
)

// Unit is a unit of time that limits are given in.
type Unit uint8

// The units. A month has 30 days.
const (
	Second Unit = iota + 1
	Minute
	Hour
	Day
	Week
	Month
)

const (
	day       = 24 * time.Hour
	maxWindow = 31 * day
)

var units = map[Unit]struct {
	name string
	long time.Duration
}{
	Second: {"second", time.Second}, Minute: {"minute", time.Minute}, Hour: {"hour", time.Hour},
	Day: {"day", day}, Week: {"week", 7 * day}, Month: {"month", 30 * day},
}

// Duration is how long the unit is; 0 if there is no such unit.
func (u Unit) Duration() time.Duration { return units[u].long }

// String is the name of the unit in a configuration; "" if there is no such unit.
func (u Unit) String() string { return units[u].name }

// UnitNamed finds a unit by its name in any case, and reports whether there is one.
func UnitNamed(name string) (Unit, bool) {
	for u, unit := range units {
		if strings.EqualFold(unit.name, name) {
			return u, true
		}
	}
	return 0, false
}

package shardlimit

import "time"

// BeginningAt is the limit with an Offset such that one of its windows begins at t, and another one
// every Per before and after. It is for FixedWindow: with Per a day and t any midnight in a place,
// days are those of that place.
//
// Where clocks change between winter and summer, call SetLimit with the new midnight after they
// did. The window of that day then ends an hour earlier or later than it would have.
func (l Limit) BeginningAt(t time.Time) Limit {
	if l.Per >= MinWindow { // else SetLimit and Limiter refuse it
		l.Offset = floorMod(time.Duration(t.UnixMicro()), l.Per/time.Microsecond) * time.Microsecond
	}
	return l
}

// edge is an instant at which a window begins, since 1970 UTC, 0 to less than Per.
func (l Limit) edge() time.Duration { return floorMod(l.Offset, l.Per) }

func floorMod(a, b time.Duration) time.Duration { return (a%b + b) % b }

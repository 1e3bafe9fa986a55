package node

import (
	"testing"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// saw is a server whose clock is told by replies that come at times of the client's clock.
type saw struct {
	ServerClock
	*testing.T
}

// learns is a reply that came at that second of the client's clock and told that of the server.
func (s *saw) learns(received, told float64) {
	s.Learn(clock.Elapsed(int64(received*1e9)), clock.ServerTime(int64(told*1e6)))
}

// ends is when something ends on the server's clock that was read from began on; 0: nobody knows.
func (s *saw) ends(began, now, want float64) {
	s.Helper()
	at, ok := s.At(clock.Elapsed(int64(began*1e9)+int64(Relied)), clock.Elapsed(int64(now*1e9)))
	if !ok {
		at = 0
	}
	if at != clock.ServerTime(want*1e6) {
		s.Errorf("what was read from %v on ends at %v after %v, want %v", began, float64(at)/1e6, now, want)
	}
}

// What was read ends at a time of a server that was heard before it was read, and not at a later
// one, however late replies tell that the client stood still.
func TestWhatWasReadEndsByAClockThatWasHeardBefore(t *testing.T) {
	s := &saw{T: t}
	s.ends(1, 1, 0)
	s.learns(2, 1002)
	s.ends(1, 2, 1006) // the first reply of all is taken at its word
	s.ends(3, 3, 1008)
	s.learns(4, 1064) // the client stood still for a minute
	s.ends(3, 4, 1008)
	s.ends(4, 4, 1069)
	s.ends(1, 4, 0)      // read before the clock was heard
	s.learns(5, 1065.05) // a reply that came sooner
	s.learns(6, 1065.9)  // and one that came later
	s.ends(5, 6, 1069.9)
	s.learns(10, 1070)
	s.ends(9.9, 10, 1074.8)
	s.ends(10, 10, 1075)
	s.ends(10, 70, 1075)
	s.ends(110, 130, 1174.4) // heard two minutes ago: it may have drifted
	s.ends(250, 251, 0)      // heard too long ago
	s = &saw{T: t}
	s.learns(72, 1132)
	s.ends(73, 73, 1138)
	s.ends(71, 73, 1136) // as above
}

// A machine that stands still again and again, each time for a moment, gains nothing by that: it
// has to read anew.
func TestManySmallStopsGainNothing(t *testing.T) {
	s := &saw{T: t}
	stood := 0.0
	s.learns(1, 1001)
	for i := range 40 {
		now := 1.1 + float64(i)/10
		stood += float64(unsteady.Seconds()) * 0.9
		s.learns(now, 1000+now+stood)
	}
	s.ends(1, 5, 0)
}

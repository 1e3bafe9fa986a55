package local

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/shardlimit/shardlimit/internal/clock"
)

// Engines are those of one limit, one for each participant that this process answers for. They are
// safe for concurrent use.
type Engines struct {
	Mine Engine // of the process itself

	mu     sync.Mutex
	others map[string]*Engine // those that the process remembers; nil until there is one
}

// Other returns the engine of another participant. One that was forgotten begins anew, with the
// whole limit: that is what any new name gets.
func (s *Engines) Other(participant string, by *clock.Clock) *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.others[participant]
	if e == nil {
		if s.others == nil {
			s.others = make(map[string]*Engine)
		}
		e = &Engine{Clock: by}
		s.others[participant] = e
	}
	return e
}

// ForgetVisitor ends what is remembered of a participant.
func (s *Engines) ForgetVisitor(participant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.others, participant)
}

// Others are the names of the other participants.
func (s *Engines) Others() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.others))
}

// Reset is the time until nothing counts of what any participant was granted.
func (s *Engines) Reset() time.Duration {
	reset := s.Mine.Reset()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.others {
		reset = max(reset, e.Reset())
	}
	return reset
}

// Clear forgets what every participant used.
func (s *Engines) Clear() {
	s.Mine.Clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.others {
		e.Clear()
	}
}

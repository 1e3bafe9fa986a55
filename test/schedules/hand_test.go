package schedules

import (
	"math/rand/v2"

	"github.com/shardlimit/shardlimit/internal/limittest"
	"github.com/shardlimit/shardlimit/internal/redistest"
)

// hand is a process of its own that calls the main limit of a schedule.
type hand struct {
	*limittest.Worker
	suspended bool
}

// hireHands starts processes.
func (s *schedule) hireHands(n int) {
	for range n {
		s.workers = append(s.workers, s.hireHand())
	}
}

func (s *schedule) hireHand() *hand {
	j := limittest.Job{Prefix: s.prefix, Name: s.main.name, Limit: s.main.versions[0].limit, Callers: 2,
		Patience: scheduleTimeout,
		Dying:    true}
	for _, st := range s.stations {
		j.Nodes = append(j.Nodes, st.at)
	}
	h := &hand{Worker: limittest.Hire(s.T, j)}
	s.main.files = append(s.main.files, h.Job.History)
	return h
}

// disturbHand kills a process, of which another one takes the place, or suspends it, or lets it go
// on.
func (s *schedule) disturbHand(e disturbance, r *rand.Rand) {
	if len(s.workers) == 0 {
		return
	}
	i := e.on % len(s.workers)
	h := s.workers[i]
	switch {
	case h.suspended:
		s.says(e, "process %d goes on", i)
		h.goOn(s)
	case r.IntN(2) == 0:
		s.says(e, "process %d is suspended", i)
		if err := redistest.StopProcess(h.Cmd.Process); err != nil {
			s.Error(err)
		}
		h.suspended = true
	default:
		s.says(e, "process %d is killed", i)
		h.dies()
		s.workers[i] = s.hireHand()
	}
}

func (h *hand) goOn(s *schedule) {
	if err := redistest.ResumeProcess(h.Cmd.Process); err != nil {
		s.Error(err)
	}
	h.suspended = false
}

func (h *hand) dies() {
	_ = h.Cmd.Process.Kill()
	_ = h.Cmd.Wait()
}

// dismissHands ends all processes.
func (s *schedule) dismissHands() {
	for _, h := range s.workers {
		if h.suspended {
			h.goOn(s)
		}
		h.Dismiss(s.T)
	}
	s.workers = nil
}

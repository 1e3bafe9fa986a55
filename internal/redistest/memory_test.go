package redistest

import (
	"fmt"
	"testing"
	"time"
)

func TestAServerComesBackWithWhatItIsToRemember(t *testing.T) {
	s := Standalone(t)
	s.Do(t, "SET", "a", "old")
	old, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	s.Do(t, "SET", "a", "new")
	for _, step := range []struct {
		name, want string
		restart    func()
	}{
		{"with all", "new", s.RestartKept},
		{"from the snapshot", "old", func() { s.RestartFrom(old) }},
		{"empty", "", s.Restart},
	} {
		step.restart()
		if got := s.Do(t, "GET", "a"); got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
}

func TestTheClockOfAServerSteps(t *testing.T) {
	s := Standalone(t, Stepped(t))
	if !s.CanStepClock() {
		t.Log("it cannot")
		return
	}
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute} {
		s.StepClock(ahead - s.ahead)
		if off := clockOf(t, s) - float64(time.Now().Add(ahead).Unix()); off < -20 || off > 20 {
			t.Errorf("set to %v, the clock is %v s off", ahead, off)
		}
	}
	s.Restart()
	if off := clockOf(t, s) - float64(time.Now().Unix()); off > -20 {
		t.Errorf("started again, the clock is %v s off", off)
	}
}

// clockOf reads a server's clock, in seconds since 1970.
func clockOf(t *testing.T, s *Server) (seconds float64) {
	t.Helper()
	if _, err := fmt.Sscanf(s.Do(t, "TIME"), "[%g", &seconds); err != nil {
		t.Fatal(err)
	}
	return seconds
}

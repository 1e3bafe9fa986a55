package redistest

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

func TestAServerComesBackWithWhatItIsToRemember(t *testing.T) {
	s := Standalone(t)
	c := s.Client(t)
	set(t, c, "a", "old")
	old, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	set(t, c, "a", "new")
	for _, step := range []struct {
		name, want string
		restart    func()
	}{
		{"with all", "new", s.RestartKept},
		{"from the snapshot", "old", func() { s.RestartFrom(old) }},
		{"empty", "", s.Restart},
	} {
		step.restart()
		if got := get(t, s.Client(t), "a"); got != step.want {
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
	c := s.Client(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute} {
		s.StepClock(ahead - s.ahead)
		if off := clockOf(t, c) - float64(time.Now().Add(ahead).Unix()); off < -20 || off > 20 {
			t.Errorf("set to %v, the clock is %v s off", ahead, off)
		}
	}
	s.Restart()
	if off := clockOf(t, s.Client(t)) - float64(time.Now().Unix()); off > -20 {
		t.Errorf("started again, the clock is %v s off", off)
	}
}

// clockOf reads a server's clock, in seconds since 1970.
func clockOf(t *testing.T, c rueidis.Client) float64 {
	t.Helper()
	reply, err := c.Do(t.Context(), c.B().Time().Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseFloat(reply[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

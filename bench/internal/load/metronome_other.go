//go:build !linux

package load

import "time"

// metronome sleeps as well as Go's timers do.
type metronome struct{}

func newMetronome() (*metronome, error) { return &metronome{}, nil }

func (*metronome) sleep(d time.Duration) error {
	time.Sleep(d)
	return nil
}

func (*metronome) close() {}

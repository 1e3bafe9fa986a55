package load

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// metronome sleeps to a few microseconds. Go's own timers wait in epoll, whose
// timeout counts whole milliseconds, so an otherwise idle program wakes up to a
// millisecond late: more than the latency of a call. A timer that is a file
// wakes epoll when it is due.
type metronome struct{ file *os.File }

func newMetronome() (*metronome, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	return &metronome{os.NewFile(uintptr(fd), "timerfd")}, nil
}

func (m *metronome) sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	raw, err := m.file.SyscallConn()
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("timerfd: %w", failed)
	}
	var ticks [8]byte
	_, err = m.file.Read(ticks[:])
	return err
}

func (m *metronome) close() { _ = m.file.Close() }

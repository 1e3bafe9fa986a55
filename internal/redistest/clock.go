package redistest

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// libfaketime clashes with the allocator of Debian's redis-server, which reads the clock while it
// is being set up; so there is a library of our own.
//
//go:embed preload/clock.c
var clockSource []byte

// Stepped lets the server's wall clock be set with StepClock, on Linux with a C compiler.
// CanStepClock tells whether it can.
func Stepped(tb testing.TB) Option {
	tb.Helper()
	library, err := clockLibrary(tb.TempDir())
	if err != nil {
		tb.Logf("redistest: clocks cannot be set: %v", err)
	}
	return func(c *config) { c.clock = library }
}

// clockLibrary builds the library in dir and returns its file.
func clockLibrary(dir string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.ErrUnsupported
	}
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cc: %w: %s", err, out)
	}
	return library, nil
}

// CanStepClock reports whether the server was started with Stepped and that was possible.
func (s *Server) CanStepClock() bool { return s.clock != "" }

// StepClock sets the server's wall clock forward by d, or back if d is negative: at once, while it
// runs. Its monotonic clock goes on as it is. A server that is started again keeps the step.
func (s *Server) StepClock(d time.Duration) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	if err := s.writeClock(); err != nil {
		s.tb.Errorf("redistest: step the clock of %s: %v", s.Addr(), err)
	}
}

// writeClock writes the eight bytes that the process has mapped: it sees the old or the new ones.
func (s *Server) writeClock() error {
	f, err := os.OpenFile(s.clockFile(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(s.ahead)), 0) //nolint:gosec // two's complement
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// environment is what the process gets beside that of the test.
func (s *Server) environment() ([]string, error) {
	if s.clock == "" {
		return nil, nil
	}
	return []string{"LD_PRELOAD=" + s.clock, "CLOCK_FILE=" + s.clockFile()}, s.writeClock()
}

package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// dumpName is the file that a server without an append-only file reads when it starts.
const dumpName = "dump.rdb"

// Snapshot is what a server had in memory at one time.
type Snapshot struct{ dump []byte }

// Save takes a snapshot, for RestartFrom. The server must run.
func (s *Server) Save() (Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if _, err := s.do(ctx, "SAVE"); err != nil {
		return Snapshot{}, err
	}
	return s.takeDump()
}

// takeDump reads the file and removes it, so that the server comes back empty when it is started
// again.
func (s *Server) takeDump() (Snapshot, error) {
	name := filepath.Join(s.dir, dumpName)
	dump, err := os.ReadFile(name)
	if err != nil {
		return Snapshot{}, fmt.Errorf("redistest: snapshot of %s: %w", s.Addr(), err)
	}
	return Snapshot{dump}, os.Remove(name)
}

// RestartFrom is like Restart, but the server comes back with what the snapshot has.
func (s *Server) RestartFrom(snapshot Snapshot) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
	name := filepath.Join(s.dir, dumpName)
	err := os.WriteFile(name, snapshot.dump, 0o600)
	if err == nil {
		err = errors.Join(s.startLocked(), os.Remove(name))
	}
	if err != nil {
		s.stopLocked()
		s.tb.Errorf("redistest: restart %s from a snapshot: %v", s.Addr(), err)
	}
}

// RestartKept ends the server in good order and starts it again with all that it had: not a write
// that was answered is missing. The server must run.
func (s *Server) RestartKept() {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	_, _ = s.do(ctx, "SHUTDOWN", "SAVE") // it ends the connection in place of an answer
	err := poll(ctx, func() error {
		if s.proc.ended() {
			return nil
		}
		return errors.New("it has not ended")
	})
	var all Snapshot
	if err == nil {
		all, err = s.takeDump()
	}
	if err != nil {
		s.tb.Errorf("redistest: shut %s down: %v", s.Addr(), err)
		return
	}
	s.RestartFrom(all)
}

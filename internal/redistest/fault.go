package redistest

import (
	"context"
	"errors"
)

// Pause stops the process (SIGSTOP): it accepts connections, as the kernel does
// so for it, but answers nothing until Resume. When Pause returns, no command
// runs any more.
func (s *Server) Pause() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc.ended() {
		s.tb.Errorf("redistest: Pause of %s, which is down", s.Addr())
		return
	}
	if err := s.proc.stop(); err != nil {
		s.tb.Errorf("redistest: pause %s: %v", s.Addr(), err)
		return
	}
	s.paused = true
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	err := poll(ctx, func() error {
		if !s.proc.stopped() {
			return errors.New("still running")
		}
		return nil
	})
	if err != nil {
		s.tb.Errorf("redistest: pause %s: %v", s.Addr(), err)
	}
}

// Resume lets a paused process go on. It does nothing to one that is not paused.
func (s *Server) Resume() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.resumeLocked(); err != nil {
		s.tb.Errorf("redistest: resume %s: %v", s.Addr(), err)
	}
}

func (s *Server) resumeLocked() error {
	if !s.paused || s.proc.ended() {
		return nil
	}
	err := s.proc.resume()
	s.paused = err != nil
	return err
}

// Kill ends the process at once (SIGKILL), paused or not, and returns when it
// is gone. Its port stays reserved for Restart. It does nothing to a server
// that is down.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
}

// Restart starts the server again on the same port, killing it first if it
// runs, and returns when it serves. It comes back empty; a node of a cluster too, but as the same
// node.
func (s *Server) Restart() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
	if err := s.startLocked(); err != nil {
		s.stopLocked()
		s.tb.Errorf("redistest: restart %s: %v", s.Addr(), err)
	}
}

// stopLocked kills the process first, so that closing the connection to it
// cannot wait for an answer.
func (s *Server) stopLocked() {
	if s.proc != nil {
		s.proc.kill()
		s.paused = false
	}
	if s.admin != nil {
		s.admin.Close()
		s.admin = nil
	}
}

// close ends the server for good and gives its port back.
func (s *Server) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopLocked()
	if s.port != 0 {
		releasePort(s.port)
	}
}

// alive reports whether the process runs and is not paused.
func (s *Server) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc != nil && !s.proc.ended() && !s.paused
}

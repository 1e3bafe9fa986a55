package pace

import (
	"sync/atomic"
	"time"
)

// Phase is what an Engine is doing.
type Phase int32

// The phases.
const (
	WaitingForInput Phase = iota
	WaitingForPermits
	WaitingForOutput
)

// Status is a snapshot of a running Engine.
type Status struct {
	Phase   Phase
	Lines   int64 // released so far
	Waiting int64 // lines read and not released
	// Err is why the gate cannot answer; nil while it does.
	Err error
}

// meter holds what Status reports. The releasing goroutine writes, any may read.
type meter struct {
	phase atomic.Int32
	lines atomic.Int64
	bytes atomic.Int64
	err   atomic.Pointer[error]

	backoff time.Duration // of the releasing goroutine only
}

func (m *meter) enter(p Phase) { m.phase.Store(int32(p)) }

func (m *meter) released(lines, bytes int64) {
	m.lines.Add(lines)
	m.bytes.Add(bytes)
}

// answered notes that the gate works.
func (m *meter) answered() {
	m.err.Store(nil)
	m.backoff = 0
}

// failed notes why the gate does not work, and returns how long to leave it alone.
func (m *meter) failed(err error) time.Duration {
	m.err.Store(&err)
	m.backoff = min(max(2*m.backoff, firstBackoff), lastBackoff)
	return m.backoff
}

// Status tells how far the engine has come. Safe from any goroutine, also
// before and after Run.
func (e *Engine) Status() Status {
	s := Status{
		Phase:   Phase(e.meter.phase.Load()),
		Lines:   e.meter.lines.Load(),
		Waiting: e.backlog.waiting(),
	}
	if err := e.meter.err.Load(); err != nil {
		s.Err = *err
	}
	return s
}

package node

import (
	"sync"
	"sync/atomic"
	"time"
)

// How an endpoint that answers late is told from the others, and for how long it is left alone.
const (
	lagTimes     = 4                    // as long as a call to the fastest endpoint takes,
	lagLeast     = 2 * time.Millisecond // and so much longer,
	paceCalls    = 8                    // in so many calls in a row, and for lagMinPause: this process may be late
	lagMinPause  = 100 * time.Millisecond
	lagMaxPause  = 5 * time.Second
	fastestLasts = 5 * time.Second
)

// Lag is how an endpoint keeps pace with the fastest that the process uses.
type Lag int

// An endpoint is in step, or lags: then calls go elsewhere while another shard serves them. One
// call after each pause is a sample: it goes there to see whether that is still so.
const (
	InStep Lag = iota
	Lags
	Sample
)

// pace is how long calls to an endpoint take. Time is an argument, as for a breaker. Safe for
// concurrent use; lag costs one load.
type pace struct {
	until atomic.Int64 // it is left alone until then; 0: it is in step

	mu    sync.Mutex
	mean  time.Duration // of the last calls; 0: there was none
	late  int           // calls in a row that were
	first int64         // when the first of those ended
	pause time.Duration // that it was last left alone for
	since int64         // when that began
}

// lag tells a call whether to go there. Whoever gets Sample must send its call.
func (p *pace) lag(now int64) Lag {
	until := p.until.Load()
	switch {
	case until == 0:
		return InStep
	case now >= until && p.until.CompareAndSwap(until, now+int64(lagMaxPause)):
		return Sample
	}
	return Lags
}

// took takes in how long a call took that has just ended, and reports whether the endpoint is found
// to lag that was in step for long.
func (p *pace) took(now int64, d time.Duration, best *fastest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lagged := p.until.Load() != 0
	if lagged || p.mean == 0 {
		p.mean = d
	} else {
		p.mean += (d - p.mean) / paceCalls
	}
	if d <= lagTimes*best.of(now, p, p.mean)+lagLeast {
		p.late = 0
		p.until.Store(0)
		return false
	}
	if p.late++; p.late == 1 {
		p.first = now
	}
	if !lagged && (p.late < paceCalls || time.Duration(now-p.first) < lagMinPause) {
		return false
	}
	rested := time.Duration(now - p.since)
	anew := !lagged && rested > p.pause+2*lagMaxPause
	switch {
	case p.pause == 0 || anew:
		p.pause, anew = lagMinPause, true
	case rested >= p.pause: // not a call that was under way
		p.pause = min(2*p.pause, lagMaxPause)
	}
	p.since = now
	p.until.Store(now + int64(p.pause))
	return anew
}

// fastest is the least mean among the endpoints of a process that were called of late.
type fastest struct {
	mu   sync.Mutex
	mean time.Duration
	from *pace // whose it is
	at   int64 // when that was last called
}

// of takes in an endpoint's mean and returns the least.
func (f *fastest) of(now int64, from *pace, mean time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil || f.from == from || mean < f.mean || time.Duration(now-f.at) > fastestLasts {
		f.mean, f.from, f.at = mean, from, now
	}
	return f.mean
}

package pace

import "time"

const (
	partOfLimit = 100              // one ask is for at most this part of the limit
	haste       = 1.25             // how much faster than the whole limit one process may be
	longStretch = 10 * time.Second // windows longer than this are not spread
)

// stride spreads what one process releases: a limit that is free would be gone
// in one burst, and a sliding window repeats its bursts. So a process asks at
// most a little faster than the whole limit is; what it is late by it can catch
// up, and several processes share out a window before one has taken it all. The
// permits of a window of more than longStretch are spread over that much only:
// who may send 100 an hour and has 3 to send does not want to wait.
//
// It is a bucket of lines that fills with time. Time is an argument. Not safe
// for concurrent use.
type stride struct {
	lines float64 // that may be asked for
	at    time.Time
}

// next returns how many of the given lines (at least 1) to ask for at once, under a
// limit of permits in a window, or else how long to wait before asking again.
func (s *stride) next(now time.Time, lines, permits int64, window time.Duration) (ask int64, wait time.Duration) {
	part := max(1, permits/partOfLimit)
	perSecond := haste * float64(permits) / min(window, longStretch).Seconds()
	if s.at.IsZero() {
		s.lines = float64(part)
	} else {
		s.lines = min(s.lines+now.Sub(s.at).Seconds()*perSecond, float64(2*part))
	}
	s.at = now
	ask = min(lines, part) // not less: many small asks would only be work
	if missing := float64(ask) - s.lines; missing > 0 {
		// Rounded up, so that the wait is enough.
		return 0, time.Duration(missing/perSecond*float64(time.Second)) + time.Microsecond
	}
	return ask, 0
}

// took notes that so many lines were granted.
func (s *stride) took(lines int64) { s.lines -= float64(lines) }

package script

import "time"

const (
	// startGap is how soon a server must start after the mark of its memory was written, so that
	// it has the rest of its memory if it has the mark, in microseconds. The start may be up to 2 s
	// before what the uptime tells. What was granted in so long can be forgotten by a server that
	// was killed just after a snapshot.
	startGap = 5 * second
	// slack is by how much a limit must be older than the server's memory, in microseconds: as far
	// as an uptime, a difference of whole seconds, may be from the truth.
	slack = 2 * second
	// liftedAfter is how long a quarantine goes on at most after a clear, in microseconds: then
	// nobody relies any more on what was read before the loss (node.Relied).
	liftedAfter = 5 * second
	// markBytes is how long a mark is at most: two times of the server, in microseconds.
	markBytes = 33
	// markLife is how long the mark is kept when nobody creates state.
	markLife = 24 * time.Hour
)

// whole is the Go twin of what packed_adopt.lua asks a server: since when it has its memory. The
// server has been up for uptime, in whole seconds, if it tells that.
type whole struct {
	uptime      time.Duration
	uptimeKnown bool
	since, seen int64 // the mark: since when, and when it was written; seen 0: there is none
}

// kept returns for how long the server has its memory, and writes the mark.
func (w *whole) kept(now int64) int64 {
	since, seen := w.since, w.seen
	if seen > now+second {
		seen = 0
	}
	if now-seen > startGap {
		start := int64(0)
		if w.uptimeKnown { // a difference of whole seconds
			start = now - max(int64(w.uptime/time.Microsecond)-second, 0)
		}
		if seen < start-startGap {
			since = start
		}
	}
	if now-seen >= second {
		w.since, w.seen = since, now
	}
	return now - since
}

// shut returns for how long a shard without state stays so, us: as long as permits of a state that
// was lost may still be in use.
func (w *whole) shut(now int64, r *TakeRequest) int64 {
	p := r.Proposal
	switch {
	case p.lasts == 0:
	case r.Seen:
		return p.lasts
	case r.known() > slack:
		if kept := w.kept(now); kept < p.lasts && r.known() > kept+slack {
			return p.lasts - kept
		}
	}
	return 0
}

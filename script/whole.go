package script

import "time"

const (
	// startGap is how soon a server must start after the mark of its memory was written, so that
	// it has the rest of its memory if it has the mark, in microseconds. What was granted in so
	// long can be forgotten by a server that was killed just after a snapshot.
	startGap = 3 * second
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
	if seen == 0 || now-seen > startGap {
		start := int64(0)
		if w.uptimeKnown {
			start = max(now-int64(w.uptime/time.Microsecond), 0)
		}
		if seen == 0 || seen < start-startGap {
			since = start
		}
	}
	if seen == 0 || now-seen >= second {
		w.since, w.seen = since, now
	}
	return now - since
}

// shut returns for how long a shard without state stays so, us: as long as permits of a state that
// was lost may still be in use.
func (w *whole) shut(now int64, r *TakeRequest) int64 {
	p := r.Proposal
	switch {
	case !p.quarantine:
	case r.Seen:
		return p.lasts
	case r.known() > second:
		if kept := w.kept(now); kept < p.lasts && r.known() > kept+second {
			return p.lasts - kept
		}
	}
	return 0
}

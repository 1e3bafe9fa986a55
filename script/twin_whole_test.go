package script

import "time"

// whole is the Go twin of what packed_adopt.lua asks a server: since when it has its memory. The
// server has been up for uptime, in whole seconds, if it tells that.
type whole struct {
	uptime      time.Duration
	uptimeKnown bool
	since, seen int64 // the mark: since when, and when it was written; seen 0: there is none
}

func (w *whole) runFor(uptime time.Duration) { w.uptime, w.uptimeKnown = uptime, true }

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

package sim

// asks are n calls for one permit each, made at times spread evenly from one to another.
type asks struct {
	n        int64
	from, to int64
	done     uint64 // the lanes that have refused them, and the one they wait at
	refused  int    // how many of these kept their permits for others
}

// lane is a process' way to one shard: what waits, and the one batch under way.
type lane struct {
	pending, flying   []asks
	waiting, inFlight int64 // permits in the two
	busy              bool  // a batch is under way
	shutUntil         int64 // nothing is free there before
	notBefore         int64 // the part of the process there is used up until then
	slot              int   // where the shard keeps its account; -1: unknown
	reported          int64 // of the unmet demand of the process
	news              int64 // since then, for the batch under way
	sent              int64
	reply             taken
}

// until is when the lane is of use again.
func (l *lane) until() int64 { return max(l.shutUntil, l.notBefore) }

// load is what the client calls waiting: everything that is not answered.
func (l *lane) load() int64 {
	if l == nil {
		return 0
	}
	return l.waiting + l.inFlight
}

func (l *lane) enqueue(a asks) {
	l.pending = append(l.pending, a)
	l.waiting += a.n
}

// board moves what waits to the batch that leaves, at most so many asks.
func (l *lane) board(most int64) {
	l.flying = l.flying[:0]
	l.inFlight = 0
	for i := range l.pending {
		a := &l.pending[i]
		if l.inFlight+a.n > most {
			first, rest := a.split(most - l.inFlight)
			if first.n > 0 {
				l.flying = append(l.flying, first)
				l.inFlight += first.n
			}
			*a = rest
			l.pending = append(l.pending[:0], l.pending[i:]...)
			l.waiting -= l.inFlight
			return
		}
		l.flying = append(l.flying, *a)
		l.inFlight += a.n
	}
	l.pending = l.pending[:0]
	l.waiting = 0
}

// split parts the first n asks from the others.
func (a asks) split(n int64) (first, rest asks) {
	first, rest = a, a
	first.n, rest.n = n, a.n-n
	if a.n > 0 {
		cut := a.from + int64(float64(a.to-a.from)*float64(n)/float64(a.n))
		first.to, rest.from = cut, cut
	}
	return first, rest
}

// before parts the asks that were made before a time from the others.
func (a asks) before(at int64) (old, rest asks) {
	if a.to <= at {
		return a, asks{}
	}
	return a.split(int64(float64(a.n) * float64(at-a.from) / float64(a.to-a.from)))
}

// fill says how many of n asks that come one by one go to each of some lanes, if
// each goes to the one with the least load, the first of them on a tie: loads are
// raised to a common level. The result is added to got.
func fill(loads []int64, n int64, got []int64) {
	for n > 0 {
		low, next, lanes := level(loads, got)
		room := n
		if next > 0 {
			room = min(n, (next-low)*lanes)
		}
		each, odd := room/lanes, room%lanes
		for i := range loads {
			if loads[i]+got[i] != low {
				continue
			}
			got[i] += each
			if odd > 0 {
				got[i]++
				odd--
			}
		}
		n -= room
	}
}

// level is the least load, how many lanes have it, and the next higher load; 0 if there is none.
func level(loads, got []int64) (low, next, lanes int64) {
	low = -1
	for i := range loads {
		switch load := loads[i] + got[i]; {
		case low < 0 || load < low:
			next = max(low, 0)
			low, lanes = load, 1
		case load == low:
			lanes++
		case next == 0 || load < next:
			next = load
		}
	}
	return low, next, lanes
}

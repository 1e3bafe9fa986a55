package script

import "slices"

// mostCrests is with how many entries ahead windows are not looked at one by one any more.
const mostCrests = 16

// crest is where a window that is still to end holds the most: the window that ends now, or one
// that ends with what is booked. An entry may hold several bookings: then it is what windows hold
// together that end with any of them.
type crest struct {
	start int64 // the first instant at which it ends
	held  int64 // permits in it
	upto  int64 // permits in the log up to its end
}

// crests returns all of the view's instant, in order of time. Where nothing is booked ahead, or too
// much, it is one that holds the whole log: so nothing that is granted beside it can make any
// window hold more than the share.
func (l *SlidingLog) crests(v view) []crest {
	all := []crest{{start: v.now, held: v.used, upto: v.used}}
	ahead, _ := slices.BinarySearchFunc(l.closed, v.now+1, byDate)
	ahead = max(ahead, v.live)
	if l.newest <= v.now || len(l.closed)-ahead >= mostCrests {
		return all
	}
	all = all[:0]
	start := v.now
	for i := ahead; ; i++ {
		end, next := l.before, l.opened
		if i < len(l.closed) {
			end, next = l.closed[i].before, l.closed[i].opened
		} else if i > len(l.closed) {
			end = l.total
		}
		all = append(all, crest{start, mod(end - l.baseAt(v, start-l.window)), mod(end - v.base)})
		if i > len(l.closed) {
			return all
		}
		start = next
	}
}

// baseAt returns the total of what has left when the window begins after from.
func (l *SlidingLog) baseAt(v view, from int64) int64 {
	if from <= v.cut {
		return v.base
	}
	if i, _ := slices.BinarySearchFunc(l.closed, from+1, byDate); i < len(l.closed) {
		return l.closed[i].before
	}
	return l.before
}

// vacant returns how many permits can be granted now beside all that is booked: what the fullest
// window has left that now lies in. A share that is still above its target, because of what was
// booked for later, leaves no more than the target does.
func (l *SlidingLog) vacant(v view) int64 {
	most := min(l.share, l.target)
	room := most
	for _, c := range l.crests(v) {
		if c.start-l.window < v.now {
			room = min(room, most-c.held)
		}
	}
	return max(room, 0)
}

// until returns in how many microseconds permits can be granted, if no window may hold more than
// most.
func (l *SlidingLog) until(v view, permits, most int64) (us int64) {
	for _, c := range l.crests(v) {
		if c.start-l.window < v.now+us && c.held+permits > most {
			us = max(us, l.leave(v, c.upto+permits-most))
		}
	}
	return us
}

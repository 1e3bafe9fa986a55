package script

import "slices"

// Take proposes a share and takes permits, as [Endpoint.Take] does.
func (l *SlidingLog) Take(now int64, r *TakeRequest) TakeReply {
	if r.fenced(now) {
		grants, _ := Distribute(r.Room[:0], 0, r.Groups)
		return TakeReply{Status: Fenced, At: now, Grants: grants}
	}
	if l.epoch == 0 && r.late(now) {
		grants, _ := Distribute(r.Room[:0], 0, r.Groups)
		return TakeReply{At: now, Grants: grants}
	}
	v := l.clock(now)
	l.fallDue(&v)
	status, write := l.settle(&v, r.Proposal, r.Seen, r.known())

	free := l.free(v)
	term := l.term(v)
	given, refused := l.fair.grant(term, free, l.quarantine(v) == 0, r)
	reply := l.enter(&v, write, given.Granted, v.now)
	reply.Status, reply.Before, reply.Free = status, free, free-given.Granted
	reply.Grants, reply.Contended = given.Grants, given.Contended
	if len(r.Groups) == 0 {
		reply.Start = l.start
	}
	l.foresee(v, refused, &reply)
	l.fair.settle(term, r, &reply)
	if len(r.Groups) == 0 && l.share > l.target && l.quarantine(v) == 0 && v.used > 0 {
		reply.Next = duration(l.first(v) + l.window - v.now) // when the share falls next
	}
	return reply
}

// settle adopts the proposal, trims, and brings the share to what it is now. write tells that the
// state changed.
func (l *SlidingLog) settle(v *view, p *Proposal, seen bool, known int64) (status Status, write bool) {
	adopts, share, target := l.epoch > 0 && l.epoch < p.epoch, l.share, l.target
	status, write = l.adopt(v, p, seen, known)
	goal := l.target
	if adopts {
		goal = p.goal()
		if share > target { // nobody has looked since it could fall to that
			goal = min(goal, target)
		}
	}
	if share := l.loweredTo(goal, *v); share != l.share {
		l.share, write = share, true
	}
	if goal < l.target {
		l.start = l.share
	}
	floor := min(p.floor, l.target)
	if l.epoch == p.epoch && l.share < floor && l.quarantine(*v) == 0 {
		l.share, write = floor, true
	}
	return status, write
}

// enter writes down what changed and what was granted at date, now or ahead.
func (l *SlidingLog) enter(v *view, write bool, granted, date int64) TakeReply {
	if granted > 0 || write {
		write = write || v.live > 0 || v.stepped
		l.forget(*v)
		v.live = 0
		partial := false
		if granted > 0 {
			if date > v.now {
				l.book(*v, granted, date)
			} else {
				partial = l.grant(*v, granted)
				v.used += granted
			}
		}
		if write || !partial {
			l.touched = v.now
		}
	}
	l.offset = v.offset
	return TakeReply{
		Epoch: l.epoch, Target: l.target, Share: l.share,
		Granted: granted, Used: v.used + l.ahead(), At: v.now,
	}
}

// adopt creates the state or takes over a newer epoch, and trims.
func (l *SlidingLog) adopt(v *view, p *Proposal, seen bool, known int64) (status Status, write bool) {
	span := l.window
	switch {
	case l.epoch == 0:
		status, write = l.create(v.now, p, seen, known), true
		span = l.window
	case l.epoch < p.epoch:
		status, write = OK, true
		l.epoch, l.target, l.start, l.window = p.epoch, p.target, l.share, p.window
		if l.window < span {
			span = l.window
			for i := range l.queue {
				l.queue[i].base = -1
			}
		}
	default:
		status = OK
	}
	*v = l.trim(*v, v.now-span)
	return status, write
}

// create makes the state of a shard that has none: fresh, or in quarantine if the node forgot what
// may still be in use.
func (l *SlidingLog) create(now int64, p *Proposal, seen bool, known int64) Status {
	*l = SlidingLog{
		Uptime: l.Uptime, UptimeKnown: l.UptimeKnown, closed: l.closed[:0],
		epoch: p.epoch, target: p.target, window: p.window, opened: now, newest: now,
	}
	if left := p.shut(seen, l.UptimeKnown, l.Uptime, known); left > 0 {
		l.closedUntil = now + left
		return Lost
	}
	return Fresh
}

// grant writes permits granted now into the open entry (merged), or closes it and opens another.
func (l *SlidingLog) grant(v view, granted int64) (merged bool) {
	merged = v.now == l.newest ||
		l.near(v.now, l.opened) && (len(l.closed) >= exactLive || v.used*lump < l.share)
	if !merged {
		if l.total != l.before {
			l.closed = append(l.closed, closedEntry{date: l.newest, before: l.before, opened: l.opened})
		}
		l.before, l.opened = l.total, v.now
	}
	l.newest = v.now
	l.total = mod(l.total + granted)
	return merged
}

// near reports whether a date is so close to when an entry was opened that both may share it.
func (l *SlidingLog) near(date, opened int64) bool {
	return l.share > exactShare && (date-opened)*resolution < l.window
}

// book writes permits booked for a date, no earlier than what is booked already, into the queue.
func (l *SlidingLog) book(v view, permits, date int64) {
	if n := len(l.queue); n > 0 {
		if b := &l.queue[n-1]; date == b.date || n >= mostPending || l.near(date, b.opened) {
			b.date, b.permits = date, b.permits+permits
			return
		}
	}
	base, from := l.total, date-l.window
	if i, _ := slices.BinarySearchFunc(l.closed, from+1, byDate); from <= v.cut {
		base = v.base
	} else if i < len(l.closed) {
		base = l.closed[i].before
	} else if l.newest > from {
		base = l.before
	}
	l.queue = append(l.queue, pending{date, date, permits, base})
}

// foresee fills in when permits come back.
func (l *SlidingLog) foresee(v view, refused int64, reply *TakeReply) {
	next, reset, closed := int64(0), int64(0), l.quarantine(v)
	most := l.target
	if closed == 0 { // else the share is put in force afterwards
		most = min(l.share, l.target)
	}
	if v.used > 0 || len(l.queue) > 0 {
		next = l.first(v) + l.window - v.now
		reset = l.last() + l.window - v.now
		if closed == 0 && l.free(v) == 0 {
			next = reset
			if most > 0 {
				next = l.until(v, 1, most)
			}
		}
	}
	if refused > most {
		reply.Retry = -1
	} else if refused > 0 {
		reply.Retry = duration(max(l.until(v, refused, most), closed))
	}
	if closed > 0 {
		next, reset = closed, max(reset, closed)
	}
	reply.Next, reply.Reset, reply.Closed = duration(next), duration(reset), duration(closed)
}

// until returns in how many microseconds permits can be granted, if no window may hold more than
// most: when that leaves room for them beside all that is booked, or behind the last booking beside
// which it does not.
func (l *SlidingLog) until(v view, permits, most int64) (us int64) {
	sum, before, rest := int64(0), int64(0), l.queue
	for i, b := range l.queue {
		sum += b.permits
		if used, near := l.beside(v, b); near && used+sum+permits > most {
			us, before, rest = b.date-v.now, sum, l.queue[i+1:]
		}
	}
	for {
		if gone := v.used + before + permits - most; gone > 0 {
			us = max(us, l.leave(v, gone))
		}
		if len(rest) == 0 || rest[0].date-v.now > us {
			return us
		}
		before, rest = before+rest[0].permits, rest[1:] // it is in the log by then
	}
}

// leave returns the microseconds until so many permits have left, those included that are booked.
func (l *SlidingLog) leave(v view, permits int64) int64 {
	date := l.newest
	for i := v.live; i < len(l.closed); i++ {
		if mod(l.after(i)-v.base) >= permits {
			date = l.closed[i].date
			break
		}
	}
	for _, b := range l.queue {
		if permits <= v.used {
			break
		}
		date, permits = b.date, permits-b.permits
	}
	return date + l.window - v.now
}

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
		reply.Next = duration(l.first(v.live) + l.window - v.now) // when the share falls next
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
	if share := l.settled(*v, goal); share != l.share {
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

// settled is lowered to goal, but of what is booked ahead it counts only what one window holds: the
// rest is not in use at the same time.
func (l *SlidingLog) settled(v view, goal int64) int64 {
	if l.falls(goal, v) && l.newest > v.now {
		v.used = l.fullest(v)
	}
	return l.loweredTo(goal, v)
}

// fullest returns the most that any window from now on holds.
func (l *SlidingLog) fullest(v view) (most int64) {
	entries := append(slices.Clone(l.closed[v.live:]), closedEntry{date: l.newest, before: l.before},
		closedEntry{before: l.total})
	first := 0
	for i, entry := range entries[:len(entries)-1] {
		for entries[first].date <= entry.date-l.window {
			first++
		}
		if i == len(entries)-2 || entries[i+1].date > v.now {
			most = max(most, mod(entries[i+1].before-entries[first].before))
		}
	}
	return most
}

// enter writes down what changed and what was granted at date, now or ahead.
func (l *SlidingLog) enter(v *view, write bool, granted, date int64) TakeReply {
	if granted > 0 || write {
		write = write || v.live > 0 || v.stepped || l.booked > 0
		l.forget(*v)
		v.live = 0
		partial := false
		if granted > 0 {
			partial = l.grant(*v, granted, date) && l.newest == v.now
			v.used += granted
		}
		write = write || v.used > l.share
		l.booked = l.mark(*v)
		if write || !partial {
			l.touched = v.now
		}
	}
	l.offset = v.offset
	return TakeReply{
		Epoch: l.epoch, Target: l.target, Share: l.share,
		Granted: granted, Used: v.used, At: v.now,
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
		span = min(span, l.window)
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

// grant writes permits granted at date into the open entry (merged), or closes it and opens
// another.
func (l *SlidingLog) grant(v view, granted, date int64) (merged bool) {
	if date < l.newest {
		l.insert(granted, date)
		return false
	}
	merged = date == l.newest ||
		l.near(date, l.opened) && (len(l.closed) >= exactLive || v.used*lump < l.share) &&
			(date == v.now || l.newest > v.now)
	if !merged {
		if l.total != l.before {
			l.closed = append(l.closed, closedEntry{date: l.newest, before: l.before, opened: l.opened})
		}
		l.before, l.opened = l.total, date
	}
	l.newest = date
	l.total = mod(l.total + granted)
	return merged
}

// near reports whether a date is so close to when an entry was opened that both may share it.
func (l *SlidingLog) near(date, opened int64) bool {
	return l.share > exactShare && (date-opened)*resolution < l.window
}

// insert writes permits granted at date behind which others have booked: into the log, where the
// date belongs. It prolongs no entry that holds much: who has booked for the instant at which that
// is free again would have it in one window with what is granted now, and leave no room for anybody
// else.
func (l *SlidingLog) insert(granted, date int64) {
	i, _ := slices.BinarySearchFunc(l.closed, date+1, byDate)
	switch {
	case i > 0 && (l.closed[i-1].date == date || len(l.closed) >= exactLive &&
		l.near(date, l.closed[i-1].opened) && l.held(i-1)*lump < l.share):
		l.closed[i-1].date = date
	case i < len(l.closed):
		l.closed = slices.Insert(l.closed, i, closedEntry{date: date, before: l.closed[i].before, opened: date})
		i++
	default:
		l.closed = append(l.closed, closedEntry{date: date, before: l.before, opened: date})
		i++
	}
	for ; i < len(l.closed); i++ {
		l.closed[i].before = mod(l.closed[i].before + granted)
	}
	l.before = mod(l.before + granted)
	l.total = mod(l.total + granted)
}

// foresee fills in when permits come back.
func (l *SlidingLog) foresee(v view, refused int64, reply *TakeReply) {
	next, reset, closed := int64(0), int64(0), l.quarantine(v)
	if v.used > 0 {
		next = l.first(v.live) + l.window - v.now
		reset = l.last() + l.window - v.now
		if most := min(l.share, l.target); closed == 0 && l.vacant(v) == 0 {
			next = reset
			if most > 0 {
				next = l.until(v, 1, most)
			}
		}
	}
	if refused > 0 {
		reply.Retry = wait(l.retry(v, refused, closed))
	}
	if closed > 0 {
		next, reset = closed, max(reset, closed)
	}
	reply.Next, reply.Reset, reply.Closed = duration(next), duration(reset), duration(closed)
}

// retry returns the microseconds until an ask of size permits can be granted if nobody else takes
// any, or -1.
func (l *SlidingLog) retry(v view, size, closed int64) int64 {
	most := l.target
	if closed == 0 { // else the share is put in force afterwards
		most = min(l.share, l.target)
	}
	if size > most {
		return -1
	}
	return max(l.until(v, size, most), closed)
}

// leave returns the microseconds until so many permits have left.
func (l *SlidingLog) leave(v view, permits int64) int64 {
	date := l.newest
	for i := v.live; i < len(l.closed); i++ {
		if mod(l.after(i)-v.base) >= permits {
			date = l.closed[i].date
			break
		}
	}
	return date + l.window - v.now
}

package script

import "time"

// Take proposes a share and takes permits, as [Endpoint.Take] does.
func (l *SlidingLog) Take(now int64, r *TakeRequest) TakeReply {
	p := r.Proposal
	if l.epoch == 0 && p.epoch == 0 {
		return TakeReply{At: now}
	}
	v := l.clock(now)
	status, write := l.adopt(&v, r)
	if share := l.lowered(v); share != l.share {
		l.share, write = share, true
	}
	if floor := min(p.floor, l.target); l.epoch == p.epoch && l.share < floor {
		l.share, write = floor, true
	}

	free := l.free(v)
	refused, granted := distribute(free, r.Groups)
	if granted > 0 || write {
		write = write || v.live > 0 || v.stepped
		l.forget(v)
		v.live = 0
		merged := granted > 0 && l.grant(v, granted)
		v.used += granted
		if write || !merged {
			l.touched = v.now
		}
	}
	l.offset = v.offset

	reply := TakeReply{
		Status: status, Epoch: l.epoch, Target: l.target, Share: l.share, Start: l.start,
		Before: free, Granted: granted, Free: free - granted, Used: v.used, At: v.now,
	}
	l.foresee(v, refused, &reply)
	return reply
}

// adopt creates the state or takes over a newer epoch, and trims.
func (l *SlidingLog) adopt(v *view, r *TakeRequest) (status Status, write bool) {
	p := r.Proposal
	span := l.window
	switch {
	case l.epoch == 0:
		status, write = l.create(v.now, r), true
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

// create makes the state of a shard that has none: fresh, or in quarantine if the node forgot what may still be in use.
func (l *SlidingLog) create(now int64, r *TakeRequest) Status {
	p := r.Proposal
	left := int64(0)
	if uptime := int64(l.Uptime / time.Second); r.Seen {
		left = p.window
	} else if l.UptimeKnown && uptime*second < p.window && r.known() > (uptime+1)*second {
		left = p.window - uptime*second
	}
	*l = SlidingLog{
		Uptime: l.Uptime, UptimeKnown: l.UptimeKnown, closed: l.closed[:0],
		epoch: p.epoch, target: p.target, window: p.window, opened: now, newest: now,
	}
	if left > 0 && p.quarantine {
		l.closedUntil = now + left
		return Lost
	}
	return Fresh
}

// grant writes granted permits into the open entry (merged), or closes it and opens another.
func (l *SlidingLog) grant(v view, granted int64) (merged bool) {
	merged = v.now == l.newest ||
		l.share > exactShare && len(l.closed) >= exactLive && (v.now-l.opened)*resolution < l.window
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

// distribute returns what Distribute grants, and the size of the first ask that is refused, 0 if none is.
func distribute(free int64, groups []Group) (refused, granted int64) {
	left := free
	for _, group := range groups {
		asks := min(group.Count, left/group.Size)
		if asks < group.Count && refused == 0 {
			refused = group.Size
		}
		left -= asks * group.Size
	}
	return refused, free - left
}

// foresee fills in when permits come back.
func (l *SlidingLog) foresee(v view, refused int64, reply *TakeReply) {
	next, reset, closed := int64(0), int64(0), l.quarantine(v)
	if v.used > 0 {
		next = l.first(v.live) + l.window - v.now
		reset = l.last() + l.window - v.now
	}
	if refused > 0 {
		reply.Retry = wait(l.retry(v, refused, closed))
	}
	if closed > 0 {
		next, reset = closed, max(reset, closed)
	}
	reply.Next, reply.Reset, reply.Closed = duration(next), duration(reset), duration(closed)
}

// retry returns the microseconds until an ask of size permits can be granted if nobody else takes any, or -1.
func (l *SlidingLog) retry(v view, size, closed int64) int64 {
	most := min(l.share, l.target)
	if size > most {
		return -1
	}
	need := v.used + size - most
	if need <= 0 {
		return closed
	}
	date := l.newest
	for i := v.live; i < len(l.closed); i++ {
		if mod(l.after(i)-v.base) >= need {
			date = l.closed[i].date
			break
		}
	}
	return max(date+l.window-v.now, closed)
}

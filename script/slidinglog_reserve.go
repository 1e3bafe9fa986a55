package script

// Reserve takes permits at the first instant at which there is room for them, as [Endpoint.Reserve]
// does. In quarantine nothing is booked: there is no telling what has room yet.
func (l *SlidingLog) Reserve(now int64, r *ReserveRequest) ReserveReply {
	if r.take().fenced(now) {
		return ReserveReply{TakeReply: TakeReply{Status: Fenced, At: now}}
	}
	if l.epoch == 0 && r.take().late(now) {
		return ReserveReply{TakeReply: TakeReply{At: now}}
	}
	v := l.clock(now)
	l.fallDue(&v)
	take := r.take()
	status, write := l.settle(&v, r.Proposal, r.Seen, take.known())

	free := l.free(v)
	pay, charge := l.fair.due(l.term(v), l.quarantine(v) == 0, r)
	granted, refused, date, paced := int64(0), int64(0), v.now, int64(0)
	switch {
	case r.Permits <= free && r.after() == 0 && pay == 0:
		granted = r.Permits
	case r.Permits > min(l.share, l.target):
		refused = r.Permits
	default:
		date = l.room(v, r.Permits, r.after())
		if date-v.now < pay {
			paced = pay
			date, refused = v.now+paced, r.Permits
		} else if l.quarantine(v) == 0 && date-v.now <= min(r.maxDelay(), l.window) {
			granted = r.Permits
		} else {
			refused = r.Permits
		}
	}

	reply := ReserveReply{TakeReply: l.enter(&v, write, granted, date), Paced: duration(paced)}
	if granted > 0 && date > v.now { // what is booked leaves room before it
		reply.Free = l.free(v)
		free = reply.Free + granted
	}
	reply.Status, reply.Before, reply.Free = status, free, max(free-granted, 0)
	l.foresee(v, refused, &reply.TakeReply)
	switch {
	case granted > 0:
		reply.At, reply.Delay = date, duration(date-v.now)
	case reply.Retry >= 0:
		reply.Retry = duration(date - v.now)
	}
	charge(granted)
	return reply
}

// mostUsed is how many permits a column holds that counts what is used.
const mostUsed = 9 * MaxPermits

// overdrawn is how many of n permits that are charged make a difference: with the share nothing is
// free as long as they are in the window.
func overdrawn(n, share, used int64) int64 { return max(0, min(n, share, mostUsed-used)) }

// room returns the earliest instant, not before so many microseconds, at which permits have room
// behind what is booked, and not in quarantine.
func (l *SlidingLog) room(v view, permits, after int64) int64 {
	date := max(v.now+after, l.closedUntil)
	if n := len(l.queue); n > 0 {
		date = max(date, l.queue[n-1].date)
	}
	if gone := v.used + l.ahead() + permits - min(l.share, l.target); gone > 0 {
		date = max(date, v.now+l.leave(v, gone))
	}
	return date
}

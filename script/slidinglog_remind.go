package script

import "slices"

// Remind enters what the shard forgot, as [Endpoint.Remind] does.
func (l *SlidingLog) Remind(now int64, r RemindRequest) RemindReply {
	if l.epoch == 0 {
		return RemindReply{}
	}
	v := l.look(now)
	entered := int64(0)
	if r.forgot(l.closedUntil) {
		entered = l.remember(v, r.dated(v.now, l.closedUntil, l.window))
	}
	l.offset = v.offset
	return RemindReply{Status: OK, Closing: l.closedUntil, Entered: entered}
}

// remember enters grants. The share is never less than what is in use: that has to leave the window
// before others may have it.
func (l *SlidingLog) remember(v view, grants []forgotten) (entered int64) {
	room, all := MaxPermits-v.used, reminded{near: l.window / remindPart}
	for i := v.live; i < len(l.closed); i++ {
		all.entries = append(all.entries, remindedEntry{l.closed[i].date, l.closed[i].opened, l.held(i)})
	}
	if l.total != l.before && l.newest > v.cut {
		all.entries = append(all.entries, remindedEntry{l.newest, l.opened, mod(l.total - l.before)})
	}
	for _, g := range slices.Backward(grants) {
		if n := min(g.permits, room-entered); n > 0 {
			all.add(g.date, n)
			entered += n
		}
	}
	if entered == 0 {
		return 0
	}
	if used := v.used + entered; l.share < used {
		l.share, l.start = used, max(l.start, used)
	}
	l.write(v, all.entries)
	return entered
}

// write makes the entries the log.
func (l *SlidingLog) write(v view, entries []remindedEntry) {
	last := entries[len(entries)-1]
	l.base, l.total, l.closed = v.base, v.base, l.closed[:0]
	for _, e := range entries[:len(entries)-1] {
		l.closed = append(l.closed, closedEntry{date: e.date, before: l.total, opened: e.opened})
		l.total = mod(l.total + e.permits)
	}
	l.before, l.opened, l.newest = l.total, last.opened, last.date
	l.total = mod(l.total + last.permits)
	l.touched, l.booked = v.now, 0
	if l.newest > v.now {
		l.booked = l.newest
	}
}

// reminded is a log under construction.
type reminded struct {
	near    int64 // permits may be dated later by so much, us
	entries []remindedEntry
}

type remindedEntry struct{ date, opened, permits int64 }

// add enters permits: in the next entry if that is near, in the one before it if that can be
// prolonged by so little, or else in one of their own, unless there are too many.
func (m *reminded) add(date, permits int64) {
	i, _ := slices.BinarySearchFunc(m.entries, date, func(e remindedEntry, date int64) int {
		return int(min(max(e.date-date, -1), 1))
	})
	next, last := i < len(m.entries), i > 0
	switch {
	case next && m.entries[i].date-date <= m.near:
		m.entries[i].opened = min(m.entries[i].opened, date)
	case last && date-m.entries[i-1].opened <= m.near:
		i--
		m.entries[i].date = date
	case len(m.entries) < mostBooked:
		m.entries = slices.Insert(m.entries, i, remindedEntry{date: date, opened: date})
	case !next:
		i--
		m.entries[i].date, m.entries[i].opened = date, date
	}
	m.entries[i].permits += permits
}

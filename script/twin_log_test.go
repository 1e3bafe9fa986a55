package script

import (
	"slices"
	"sort"
)

// log is the Go twin of log.lua: what a sliding log, a sliding counter or a fixed window keeps.
// Copies of the state share the entries: they are changed only in one that is going to be stored.
type log[D dater] struct {
	since int64 // what was granted earlier is forgotten
	series
}

// series is what is alive of a log, in the order of its dates.
type series struct {
	before  int64 // the total before the first entry
	entries []entry
	past    int // of the entries, that are not booked ahead
}

// entry is what was granted, or is booked, under one date.
type entry struct {
	date  int64
	total int64 // up to and with it
}

// dater is an algorithm that keeps a log.
type dater interface{ dates() dates }

type (
	slidingLog     struct{}
	slidingCounter struct{}
	fixedWindow    struct{}
)

func (slidingLog) dates() dates     { return logs[AlgorithmSlidingLog] }
func (slidingCounter) dates() dates { return logs[AlgorithmSlidingCounter] }
func (fixedWindow) dates() dates    { return logs[AlgorithmFixedWindow] }

// mod brings a difference or sum of totals back into [0, wrap).
func mod(n int64) int64 {
	if n %= wrap; n < 0 {
		n += wrap
	}
	return n
}

func (l *log[D]) by() dates {
	var algorithm D
	return algorithm.dates()
}

// dated returns how a grant of an instant is dated.
func (d dates) dated(window, instant int64) int64 {
	if d.fixed {
		return instant - instant%window
	}
	return instant
}

// total is that up to entry i, -1: before the first.
func (l *series) total(i int) int64 {
	if i < 0 {
		return l.before
	}
	return l.entries[i].total
}

// alive is what was granted up to entry i, of what is not forgotten.
func (l *series) alive(i int) int64 { return mod(l.total(i) - l.before) }

// after is the first entry that is dated after an instant.
func (l *series) after(instant int64) int {
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].date > instant })
}

func (l *log[D]) begin(f *frame) { *l = log[D]{since: f.now} }

func (l *log[D]) advance(f *frame) {
	if gone := l.after(f.now - f.window); gone > 0 {
		last := l.entries[gone-1]
		if l.since = last.date + 1; l.by().fixed {
			l.since = last.date + f.window
		}
		l.before, l.entries = last.total, l.entries[gone:]
	}
	l.past = len(l.entries)
	for l.past > 0 && l.entries[l.past-1].date > f.now {
		l.past--
	}
}

// regrid: what left the old window stays forgotten. What a fixed window has granted counts in the
// new one that is under way, and what is booked in the one that holds its beginning.
func (l *log[D]) regrid(f *frame, _ int64) {
	if l.by().fixed {
		l.entries = slices.Clone(l.entries)
		for i := range l.entries {
			l.entries[i].date = l.by().dated(f.window, max(l.entries[i].date, f.now))
		}
	}
	l.advance(f)
}

func (l *log[D]) ends(*frame) int64 { return 0 }
func (l *log[D]) reshape(*frame)    {}

// within returns what is in the window that ends with entry i.
func (l *series) within(window int64, i int) int64 {
	return mod(l.total(i) - l.total(l.after(l.entries[i].date-window)-1))
}

// held is the most that a window holds which ends now or with a booking.
func (l *log[D]) held(f *frame) int64 {
	most := l.alive(l.past - 1)
	for i := l.past; i < len(l.entries); i++ {
		most = max(most, l.within(f.window, i))
	}
	return most
}

func (l *log[D]) used(*frame) int64 { return l.alive(len(l.entries) - 1) }

// free is what can be granted now: beside what is used, and in every window that ends with a
// booking.
func (l *log[D]) free(f *frame) int64 {
	most := l.alive(l.past - 1)
	for i := l.past; i < len(l.entries); i++ {
		if l.entries[i].date-f.window < l.by().dated(f.window, f.now) {
			most = max(most, l.within(f.window, i))
		}
	}
	return max(min(f.share, f.target)-most, 0)
}

// together reports whether a grant of one date may share an entry with one of another.
func (d dates) together(f *frame, one, other int64) bool {
	cell := f.window / d.cells
	return one == other || !d.fixed && f.share > d.exactShare && one-one%cell == other-other%cell
}

// joins reports whether a grant of that date joins the newest entry.
func (d dates) joins(f *frame, l *series, date int64) bool {
	if l.past == 0 {
		return false
	}
	newest := l.entries[l.past-1].date
	return newest == date || l.past >= mostEntries || l.past >= d.exactLive && d.together(f, newest, date)
}

func (l *log[D]) grant(f *frame, n int64) {
	e := entry{date: l.by().dated(f.window, f.now), total: mod(l.total(l.past-1) + n)}
	if l.by().joins(f, &l.series, e.date) {
		l.entries[l.past-1] = e
	} else {
		l.entries = slices.Insert(l.entries, l.past, e)
		l.past++
	}
	l.shift(l.past, n)
}

// shift adds permits to the totals from entry i on.
func (l *series) shift(i int, n int64) {
	for ; i < len(l.entries); i++ {
		l.entries[i].total = mod(l.entries[i].total + n)
	}
}

// overdraw is how many of n permits make a difference: with the share nothing is free for a window.
func (l *log[D]) overdraw(f *frame, n, _ int64) int64 {
	return max(min(n, max(f.share, f.target), mostUsed-l.alive(l.past-1)), 0)
}

func (l *log[D]) pace(*frame) (int64, int64) { return 0, 0 }

// refund takes permits off the entry that holds the grant. No entry stays empty.
func (l *log[D]) refund(f *frame, n, at int64) int64 {
	date := l.by().dated(f.window, at)
	i := l.after(date - 1)
	if at < l.since || date <= f.now-f.window || i == len(l.entries) {
		return 0
	}
	if held := l.entries[i].date; held != date && (i >= l.past || !l.by().together(f, held, date)) {
		return 0
	}
	n = min(n, mod(l.total(i)-l.total(i-1)))
	l.shift(i, -n)
	if l.total(i) == l.total(i-1) {
		l.entries = slices.Delete(l.entries, i, i+1)
		if i < l.past {
			l.past--
		}
	}
	return n
}

// earliest is behind everything that is booked.
func (l *log[D]) earliest(f *frame, n, least int64) (us int64, room bool) {
	if least == 0 && n <= l.free(f) {
		return 0, true
	}
	most := min(f.share, f.target)
	if n > most {
		return -1, false
	}
	us = least
	if last := len(l.entries) - 1; last >= l.past {
		us = max(us, l.entries[last].date-f.now)
	}
	if gone := l.used(f) + n - most; gone > 0 {
		us = max(us, l.leave(f, gone))
	}
	return us, len(l.entries)-l.past < mostPending && len(l.entries) < mostEntries+mostPending
}

func (l *log[D]) book(f *frame, n, us int64) (at int64) {
	last := len(l.entries) - 1
	e := entry{date: l.by().dated(f.window, f.now+us), total: mod(l.total(last) + n)}
	switch {
	case e.date <= f.now:
		l.grant(f, n)
	case last >= l.past && l.entries[last].date == e.date:
		l.entries[last] = e
	default:
		l.entries = append(l.entries, e)
	}
	return f.now + us
}

// leave returns when so many permits have left.
func (l *series) leave(f *frame, gone int64) int64 {
	i := sort.Search(len(l.entries)-1, func(i int) bool { return l.alive(i) >= gone })
	return l.entries[i].date + f.window - f.now
}

// retry is the time until n permits are free: beside what is used then, and in every window that
// holds that instant and ends with a booking; else behind that booking.
func (l *log[D]) retry(f *frame, n int64) int64 {
	most, us, past := min(f.share, f.target), int64(0), l.past
	if n > most {
		return -1
	}
	for {
		for past < len(l.entries) && l.entries[past].date-f.now <= us {
			past++ // it is by then
		}
		later := us
		if gone := l.alive(past-1) + n - most; gone > 0 {
			later = max(us, l.leave(f, gone))
		}
		if later == us {
			for i := past; i < len(l.entries); i++ {
				if date := l.entries[i].date; date-f.window < l.by().dated(f.window, f.now+us) && l.within(f.window, i)+n > most {
					later = max(later, date-f.now)
				}
			}
			if later == us {
				return us
			}
		}
		us = later
	}
}

func (l *log[D]) soonest(f *frame) int64 {
	switch {
	case l.used(f) == 0:
		return 0
	case l.free(f) > 0:
		return l.entries[0].date + f.window - f.now
	}
	if us := l.retry(f, 1); us >= 0 {
		return us
	}
	return l.reset(f)
}

func (l *log[D]) reset(f *frame) int64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].date + f.window - f.now
}

func (l *log[D]) releases(f *frame) (releases []Release) {
	step, told := (len(l.entries)+MaxReleases-1)/MaxReleases, int64(0)
	for i := 0; i < len(l.entries); i += step {
		last := min(i+step, len(l.entries)) - 1
		if upto := l.alive(last); upto > told {
			in := l.entries[last].date + f.window - f.now
			releases, told = append(releases, Release{In: duration(in), Permits: upto - told}), upto
		}
	}
	return releases
}

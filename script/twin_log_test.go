package script

import (
	"math"
	"slices"
	"sort"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// log is the Go twin of log.lua: what a sliding log, a sliding counter or a fixed window keeps.
type log struct {
	dates
	since   int64   // what was granted earlier is forgotten
	before  int64   // the total before the first entry
	entries []entry // that are alive, in the order of their dates
	past    int     // of the entries, that are not booked ahead
}

// entry is what was granted, or is booked, under one date.
type entry struct {
	date  int64
	total int64 // up to and with it
}

// mod brings a difference or sum of totals back into [0, wrap).
func mod(n int64) int64 {
	if n %= wrap; n < 0 {
		n += wrap
	}
	return n
}

func (l *log) clone() rule {
	own := *l
	own.entries = slices.Clone(l.entries)
	return &own
}

// text renders the log as the scripts store it when they write the whole of it.
func (l *log) text() string {
	count, newest := int64(len(l.entries)), entry{total: l.before}
	oldest := newest
	if count > 0 {
		oldest, newest = l.entries[0], l.entries[count-1]
	}
	text := columns.Log.Append(nil, 0, count, newest.date, newest.total, l.since, l.before, 0, oldest.date)
	for _, e := range l.entries[:max(count-1, 0)] {
		text = columns.Entry.Append(text, 0, e.date, e.total)
	}
	return string(text)
}

// dated returns how a grant of an instant is dated.
func (l *log) dated(f *frame, instant int64) int64 {
	if l.fixed {
		return instant - instant%f.window
	}
	return instant
}

// total is that up to entry i, -1: before the first.
func (l *log) total(i int) int64 {
	if i < 0 {
		return l.before
	}
	return l.entries[i].total
}

// alive is what was granted up to entry i, of what is not forgotten.
func (l *log) alive(i int) int64 { return mod(l.total(i) - l.before) }

// after is the first entry that is dated after an instant.
func (l *log) after(instant int64) int {
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].date > instant })
}

func (l *log) booked() bool { return l.past < len(l.entries) }

func (l *log) begin(f *frame) { *l = log{dates: l.dates, since: f.now} }

func (l *log) advance(f *frame) {
	if gone := l.after(f.now - f.window); gone > 0 {
		last := l.entries[gone-1]
		if l.since = last.date + 1; l.fixed {
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
func (l *log) regrid(f *frame, _ int64) {
	if l.fixed {
		for i := range l.entries {
			l.entries[i].date = l.dated(f, max(l.entries[i].date, f.now))
		}
	}
	l.advance(f)
}

func (l *log) ends(*frame) int64 { return 0 }
func (l *log) reshape(*frame)    {}

// within returns what is in the window that ends with entry i.
func (l *log) within(f *frame, i int) int64 {
	return mod(l.total(i) - l.total(l.after(l.entries[i].date-f.window)-1))
}

// fullest is the most that a window holds which ends now, or with a booking and begins before an
// instant.
func (l *log) fullest(f *frame, instant int64) int64 {
	most := l.alive(l.past - 1)
	for i := l.past; i < len(l.entries); i++ {
		if l.entries[i].date-f.window < instant {
			most = max(most, l.within(f, i))
		}
	}
	return most
}

func (l *log) held(f *frame) int64 { return l.fullest(f, math.MaxInt64) }

func (l *log) used(*frame) int64 { return l.alive(len(l.entries) - 1) }

// free is what can be granted now: beside what is used, and in every window that ends with a
// booking.
func (l *log) free(f *frame) int64 {
	return max(min(f.share, f.target)-l.fullest(f, l.dated(f, f.now)), 0)
}

// together reports whether a grant of one date may share an entry with one of another.
func (l *log) together(f *frame, one, other int64) bool {
	cell := f.window / l.cells
	return one == other || !l.fixed && f.share > l.exactShare && one-one%cell == other-other%cell
}

// joins reports whether a grant of that date joins the newest entry.
func (l *log) joins(f *frame, date int64) bool {
	if l.past == 0 {
		return false
	}
	newest := l.entries[l.past-1].date
	return newest == date || l.past >= mostEntries ||
		l.past >= l.exactLive && l.together(f, newest, date) && !l.parted(f, newest, date)
}

// parted reports whether the window of a booking begins between two dates.
func (l *log) parted(f *frame, one, other int64) bool {
	return slices.ContainsFunc(l.entries[l.past:], func(e entry) bool {
		return e.date-f.window >= one && e.date-f.window < other
	})
}

func (l *log) grant(f *frame, n int64) {
	e := entry{date: l.dated(f, f.now), total: mod(l.total(l.past-1) + n)}
	if l.joins(f, e.date) {
		l.entries[l.past-1] = e
	} else {
		l.entries = slices.Insert(l.entries, l.past, e)
		l.past++
	}
	l.shift(l.past, n)
}

// shift adds permits to the totals from entry i on.
func (l *log) shift(i int, n int64) {
	for ; i < len(l.entries); i++ {
		l.entries[i].total = mod(l.entries[i].total + n)
	}
}

// overdraw is how many of n permits make a difference: with the share nothing is free for a window.
func (l *log) overdraw(f *frame, n, _ int64) int64 {
	return max(min(n, max(f.share, f.target), mostUsed-l.alive(l.past-1)), 0)
}

func (l *log) pace(*frame) (int64, int64) { return 0, 0 }

// refund takes permits off the entry that holds the grant. No entry stays empty.
func (l *log) refund(f *frame, n, at int64) int64 {
	date := l.dated(f, at)
	i := l.after(date - 1)
	if at < l.since || date <= f.now-f.window || i == len(l.entries) {
		return 0
	}
	if held := l.entries[i].date; held != date && (i >= l.past || !l.together(f, held, date)) {
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
func (l *log) earliest(f *frame, n, least, kept int64) (us int64, room bool) {
	most := min(f.share, f.target)
	if n > most {
		return -1, false
	}
	kept = min(kept, most-n)
	if least == 0 && n+kept <= l.free(f) {
		return 0, true
	}
	us = least
	if last := len(l.entries) - 1; last >= l.past {
		us = max(us, l.entries[last].date-f.now)
	}
	if gone := l.used(f) + n + kept - most; gone > 0 {
		us = max(us, l.leave(f, gone))
	}
	return us, len(l.entries)-l.past < mostPending && len(l.entries) < mostEntries+mostPending
}

func (l *log) book(f *frame, n, us int64) (at int64) {
	last := len(l.entries) - 1
	e := entry{date: l.dated(f, f.now+us), total: mod(l.total(last) + n)}
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
func (l *log) leave(f *frame, gone int64) int64 {
	i := sort.Search(len(l.entries)-1, func(i int) bool { return l.alive(i) >= gone })
	return l.entries[i].date + f.window - f.now
}

// retry is the time until n permits are free: beside what is used then, and in every window that
// holds that instant and ends with a booking; else behind that booking.
func (l *log) retry(f *frame, n int64) int64 {
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
				if date := l.entries[i].date; date-f.window < l.dated(f, f.now+us) && l.within(f, i)+n > most {
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

func (l *log) soonest(f *frame) int64 {
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

func (l *log) reset(f *frame) int64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].date + f.window - f.now
}

func (l *log) releases(f *frame) (releases []Release) {
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

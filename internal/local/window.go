package local

import (
	"slices"

	"github.com/shardlimit/shardlimit/script"
)

// exact is how many grants of a window have an entry each. Later ones share one with others of the
// same part of a window: permits come back late by at most as much, never early.
const exact, parts = 128, 128

// window is a sliding log: no window holds more than the limit. A fixed window is one whose grants
// are all dated at its beginning.
type window struct {
	limit   Limit
	entries []entry // in the order of their dates
	sum     int64   // of all of them
	gone    int64   // the latest date of those that were forgotten
}

// entry is permits that count for a window from their date on.
type entry struct{ at, n int64 }

// change leaves what has left the old window out of the new one. What counts in a fixed window of
// another length counts in the one that now is in.
func (w *window) change(now int64, limit Limit) {
	w.advance(now)
	old := w.limit
	if w.limit = limit; limit.Algorithm != script.AlgorithmFixedWindow || old.Window == limit.Window {
		return
	}
	if w.gone = 0; w.sum > 0 {
		last := w.entries[len(w.entries)-1].at
		w.entries = append(w.entries[:0], entry{max(w.date(now), w.date(last)), w.sum})
	}
}

// advance forgets what has left the window.
func (w *window) advance(now int64) {
	gone := 0
	for gone < len(w.entries) && w.ends(gone) <= now {
		w.sum, w.gone = w.sum-w.entries[gone].n, w.entries[gone].at
		gone++
	}
	w.entries = slices.Delete(w.entries, 0, gone)
}

// ends is when an entry leaves the window.
func (w *window) ends(i int) int64 { return w.entries[i].at + int64(w.limit.Window) }

// date is the one of permits that are granted now.
func (w *window) date(now int64) int64 {
	if w.limit.Algorithm == script.AlgorithmFixedWindow {
		return now - now%int64(w.limit.Window)
	}
	return now
}

func (w *window) used(now int64) (n, until int64) {
	if w.advance(now); len(w.entries) == 0 {
		return 0, now
	}
	return w.sum, w.ends(len(w.entries) - 1)
}

func (w *window) earliest(now, n int64) (at int64) {
	w.advance(now)
	at = now
	over := w.sum + n - w.limit.Permits
	for i := 0; over > 0 && i < len(w.entries); i++ {
		over -= w.entries[i].n
		at = w.ends(i)
	}
	return at
}

func (w *window) turn(now, _ int64) int64 { return now }

func (w *window) grant(now, n int64) int64 {
	date, last := w.date(now), len(w.entries)-1
	if w.sum += n; last >= 0 {
		date = max(date, w.entries[last].at) // what a leaky bucket let through acts later
	}
	part := max(int64(w.limit.Window)/parts, 1)
	if last >= 0 && (w.entries[last].at == date || last >= exact && w.entries[last].at/part == date/part) {
		w.entries[last] = entry{date, w.entries[last].n + n}
	} else {
		w.entries = append(w.entries, entry{date, n})
	}
	return date
}

// back takes permits out of the entry that they are in: the first that is not older.
func (w *window) back(now, at, n int64) int64 {
	w.advance(now)
	i := slices.IndexFunc(w.entries, func(e entry) bool { return e.at >= at })
	if i < 0 || at <= w.gone {
		return 0
	}
	n = min(n, w.entries[i].n)
	w.sum -= n
	if w.entries[i].n -= n; w.entries[i].n == 0 {
		w.entries = slices.Delete(w.entries, i, i+1)
	}
	return n
}

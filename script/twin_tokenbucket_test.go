package script

import "slices"

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	since int64 // when grants are known from
	// the least that was missing before a grant, in this stretch of time and in those before it
	lows     [mostLows + 1]int64
	bookings []booking // what is booked ahead, by date; never changed in place, as copies of the state share it

	ownDate, ownPart int64 // the date without what yield adds to it, while raised
	ownLevel         int64 // the level then
	raised           bool
}

// booking is a number of permits that may be used from date on.
type booking struct{ date, permits int64 }

func (t *tokenBucket) advance(f *frame) {
	t.bare()
	if f.target > 0 {
		lows := noLows
		if passed := f.stretches(f.touched); passed < int64(len(lows)) {
			copy(lows[passed:], t.lows[:])
		}
		t.lows = lows
	}
	t.measure(f)
	if len(t.bookings) > 0 {
		t.overflow(f)
		t.yield(f)
	}
}

// overflow drops the bookings that are due. What flowed over up to now, because the bucket was full
// with what is booked, is gone.
func (t *tokenBucket) overflow(f *frame) {
	later := int64(0)
	for _, b := range t.bookings {
		later += b.permits
	}
	for len(t.bookings) > 0 && t.bookings[0].date <= f.now {
		due := t.bookings[0]
		t.atLeast(f, due.date, later)
		later -= due.permits
		t.bookings = t.bookings[1:]
	}
	if later > 0 {
		t.atLeast(f, f.now, later)
	}
	t.measure(f)
	t.lows[0] = 0 // what is booked needs room beside what is missing
}

// noLows is where nothing was granted.
var noLows = func() (lows [mostLows + 1]int64) {
	for i := range lows {
		lows[i] = mostLacking
	}
	return lows
}()

// stretches returns how many stretches of time ago an instant was.
func (f *frame) stretches(at int64) int64 {
	stretch := int64(float64(f.window) * float64(f.burst) / float64(f.target) / mostLows)
	if stretch == 0 {
		return mostLows + 1
	}
	return f.now/stretch - at/stretch
}

// atLeast keeps the level, up to the instant, below the room by so many permits.
func (t *tokenBucket) atLeast(f *frame, instant, permits int64) {
	us, rest := t.span(f, permits, 0)
	if least := instant + us; t.date < least || t.date == least && t.part < rest {
		t.date, t.part = least, rest
	}
}

// yield keeps the level, up to the date of each booking, below the room by what is booked from
// there on: until bare undoes it, as a booking may be canceled before anything flows over.
func (t *tokenBucket) yield(f *frame) {
	if t.raised = len(t.bookings) > 0; t.raised {
		t.measure(f)
	}
	t.ownDate, t.ownPart, t.ownLevel = t.date, t.part, t.level
	later := int64(0)
	for _, b := range slices.Backward(t.bookings) {
		later += b.permits
		t.atLeast(f, b.date, later)
	}
	t.measure(f)
}

// bare undoes yield.
func (t *tokenBucket) bare() {
	if t.raised {
		t.date, t.part, t.raised = t.ownDate, t.ownPart, false
	}
}

func (t *tokenBucket) grant(f *frame, n int64) {
	t.lows[0] = min(t.lows[0], max(t.room-t.level-1, 0)) // a part of a permit counts as one
	t.bare()
	t.move(f, n)
	if len(t.bookings) > 0 {
		t.yield(f)
	}
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}, since: f.now, lows: noLows}
	t.measure(f)
}

func (t *tokenBucket) retire(f *frame) {
	t.leave(f)
	us, rest := int64(0), int64(0)
	if t.level < f.share {
		us, rest = t.span(f, f.share-t.level, 0)
	}
	t.date, t.part, t.bookings, t.raised = f.now+us+min(rest, 1), 0, nil, false
}

func (t *tokenBucket) reshape(f *frame) {
	if f.retired() {
		t.measure(f)
		return
	}
	had := t.level // under the old rate
	if t.raised {
		had = t.ownLevel
	}
	t.bare()
	t.leave(f)
	t.date, t.part = f.now, 0
	t.measure(f)
	if had < t.room && f.share > 0 {
		t.move(f, t.room-had)
	}
	t.yield(f)
}

func (t *tokenBucket) held(f *frame) int64 {
	if f.retired() && t.date > f.now || !f.retired() && (t.level < 0 || len(t.bookings) > 0) {
		return f.share
	}
	return 0
}

func (t *tokenBucket) pace(*frame) (int64, int64)  { return 0, 0 }
func (t *tokenBucket) soonest(f *frame) int64      { return t.soonestBy(f, t.retry) }
func (t *tokenBucket) releases(f *frame) []Release { return t.releasesBy(f, t.retry) }

func (t *tokenBucket) retry(f *frame, n int64) int64 {
	if n > t.room {
		return -1
	}
	return t.wait(f, n)
}

func (t *tokenBucket) earliest(f *frame, n, after int64) (us int64, room bool) {
	if us = t.retry(f, n); us >= 0 {
		us = max(us, after)
	}
	return us, f.share <= f.target && len(t.bookings) < mostBookings
}

func (t *tokenBucket) book(f *frame, n, us int64) (at int64) {
	t.grant(f, n)
	if us > 0 {
		i := len(t.bookings)
		for i > 0 && t.bookings[i-1].date > f.now+us {
			i--
		}
		t.bare()
		t.bookings = slices.Insert(slices.Clone(t.bookings), i, booking{f.now + us, n})
		t.yield(f) // the date was rounded up
	}
	return f.now + us
}

// cancel takes up to n permits off the bookings with this date, and returns how many.
func (t *tokenBucket) cancel(n, at int64) (canceled int64) {
	for i, b := range slices.Backward(t.bookings) {
		if b.date != at || canceled == n {
			continue
		}
		t.bookings = slices.Clone(t.bookings)
		part := min(n-canceled, b.permits)
		canceled += part
		if t.bookings[i].permits -= part; t.bookings[i].permits == 0 {
			t.bookings = slices.Delete(t.bookings, i, i+1)
		}
	}
	return canceled
}

func (t *tokenBucket) refund(f *frame, n, at int64) (refunded int64) {
	if f.share == 0 || f.target == 0 || at < t.since {
		return 0
	}
	t.bare()
	t.measure(f)
	had := t.level
	if canceled := t.cancel(n, at); canceled > 0 {
		t.back(f, canceled)
	} else if at <= f.now {
		t.regain(f, n, at)
	}
	t.measure(f)
	refunded = min(n, t.level-had)
	t.yield(f)
	return refunded
}

// regain puts back of n permits what would be in the bucket if they had not been granted, at least:
// tokenbucket.lua explains it.
func (t *tokenBucket) regain(f *frame, n, at int64) {
	least, last := n, f.stretches(at)
	if last > mostLows {
		last, least = mostLows, 0
	}
	for i := range t.lows[:last+1] {
		least = min(least, t.lows[i])
		t.lows[i] = max(t.lows[i]-n, 0)
	}
	if float64(f.share)*float64(f.now-at)/float64(f.window) < float64(n-least) {
		t.back(f, n)
		t.date += f.now - at
	} else if least > 0 {
		t.back(f, least)
	}
}

// leave has nothing come back of what was granted so far.
func (t *tokenBucket) leave(f *frame) {
	t.since, t.lows = f.now+1, noLows
}

package script

import "slices"

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	returns
	bookings []booking // what is booked ahead, by date; never changed in place, as copies of the state share it

	ownDate, ownPart int64 // the date without what yield adds to it, while raised
	ownLevel         int64 // the level then
	raised           bool
}

// booking is a number of permits that may be used from date on.
type booking struct{ date, receipt, permits int64 }

const (
	mostBookings = 512
	manyBookings = 64 // from so many on bookings become one where they can, as every call reads all of them
)

func (t *tokenBucket) advance(f *frame) {
	t.bare()
	t.measure(f)
	if t.full() == f.now {
		t.settle()
	}
	if len(t.bookings) > 0 {
		t.overflow(f)
		t.yield(f)
	}
}

// overflow drops the bookings that are due. What flowed over up to now, because the bucket was full
// with what is booked, is gone.
func (t *tokenBucket) overflow(f *frame) {
	later := t.booked(f)
	for len(t.bookings) > 0 && t.bookings[0].date <= f.now {
		due := t.bookings[0]
		t.atLeast(f, due.date, later)
		later -= due.permits
		t.bookings = t.bookings[1:]
		t.note(due.receipt, due.permits) // it counts as granted now, after what was granted since it was booked
		if us, rest := t.span(f, due.permits, 0); us < far {
			t.moveOn(us, rest, f.share)
		}
	}
	if later > 0 {
		t.atLeast(f, f.now, later)
	}
	t.measure(f)
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
	t.bare()
	t.move(f, n)
	if len(t.bookings) > 0 {
		t.yield(f)
	}
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}}
	t.measure(f)
}

func (t *tokenBucket) retire(f *frame) {
	t.leave(f)
	us := int64(0)
	if t.level < f.share {
		var rest int64
		if us, rest = t.span(f, f.share-t.level, 0); rest > 0 {
			us++
		}
	}
	t.retireAt(f, f.now+us)
	t.bookings, t.raised = nil, false
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
	if f.retired() {
		return t.ebb(f)
	}
	if t.level < 0 || len(t.bookings) > 0 {
		return f.share
	}
	return 0
}

func (t *tokenBucket) pace(*frame) (int64, int64)  { return 0, 0 }
func (t *tokenBucket) soonest(f *frame) int64      { return t.soonestBy(f, t.retry) }
func (t *tokenBucket) releases(f *frame) []Release { return t.releasesBy(f, t.retry) }

func (t *tokenBucket) receipt(f *frame) int64 {
	date, part := t.date, t.part
	if t.raised {
		date, part = t.ownDate, t.ownPart
	}
	return t.stamp(date, part, f.share)
}

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
	return us, f.share <= f.target && (len(t.bookings) < mostBookings || t.pair() >= 0)
}

func (t *tokenBucket) overdraw(f *frame, n, us int64) (count, turn int64) {
	return t.payable(f, n, us), 0
}

func (t *tokenBucket) book(f *frame, n, us int64) (at int64) {
	if us > 0 && len(t.bookings) >= manyBookings {
		if i := t.pair(); i >= 0 {
			t.join(i)
		}
	}
	t.grant(f, n)
	at = t.receipt(f)
	if us > 0 {
		i := len(t.bookings)
		for i > 0 && t.bookings[i-1].date > f.now+us {
			i--
		}
		t.bare()
		t.bookings = slices.Insert(slices.Clone(t.bookings), i, booking{f.now + us, at, n})
		t.yield(f) // the date was rounded up
	}
	return at
}

// pair returns the first of two bookings in a row that can become one, -1 if there are none.
func (t *tokenBucket) pair() int {
	for i := 1; i < len(t.bookings); i++ {
		if t.bookings[i-1].permits+t.bookings[i].permits <= t.room {
			return i - 1
		}
	}
	return -1
}

// join makes two bookings one.
func (t *tokenBucket) join(i int) {
	a, b := t.bookings[i], t.bookings[i+1]
	one := booking{b.date, min(a.receipt, b.receipt), a.permits + b.permits}
	t.bookings = slices.Concat(t.bookings[:i], []booking{one}, t.bookings[i+2:])
}

func (t *tokenBucket) booked(*frame) (sum int64) {
	for _, b := range t.bookings {
		sum += b.permits
	}
	return sum
}

// cancel takes up to n permits off the bookings with this receipt, which are several only within a
// microsecond, and returns how many.
func (t *tokenBucket) cancel(n, at int64) (canceled int64) {
	for i, b := range slices.Backward(t.bookings) {
		if b.receipt != at || canceled == n {
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
	if f.share == 0 || t.retired || t.returned > mostReturned {
		return 0
	}
	t.bare()
	t.measure(f)
	date, part := t.date, t.part
	if refunded = t.cancel(n, at); refunded > 0 {
		t.back(f, refunded) // it was not used yet, so it is all there
		t.note(at, refunded)
	} else {
		refunded = t.regain(f, n, at)
	}
	t.moveOn(date-t.date, part-t.part, f.share)
	t.yield(f)
	return refunded
}

// regain puts back what is left to gain of n permits that were granted, and returns how many these
// are.
func (t *tokenBucket) regain(f *frame, n, at int64) int64 {
	date, part := t.sum(t.date, t.part, f.share)
	since, missing, had := t.since(f, date, part, at), t.room-t.level, t.level
	for _, b := range t.bookings {
		if b.receipt < at {
			since += b.permits // used later
		}
	}
	if since >= missing || missing >= far {
		return 0
	}
	n = min(n, missing)
	whole, _ := mulDiv(f.share, t.date-f.now, t.part, f.window)
	if since+n <= whole {
		t.back(f, n)
		t.note(at, n)
	} else {
		us, rest := t.span(f, since, 0)
		t.date, t.part = f.now+us, rest
		t.note(at, whole-since)
	}
	t.measure(f)
	return min(t.level-had, n)
}

package script

import "slices"

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	returned int64     // us of refill that refunds have taken off the date so far
	bookings []booking // what is booked ahead, by date; never changed in place, as copies of the state share it
}

// booking is a number of permits that may be used from date on.
type booking struct{ date, receipt, permits int64 }

const (
	manyReturned = 1_000_000_000_000_000
	mostReturned = 4 * manyReturned
	mostBookings = 64
)

func (t *tokenBucket) advance(f *frame) {
	t.measure(f)
	if t.level == t.room && t.returned > manyReturned { // receipts from before are larger than any to come
		t.returned = 0
	}
	for len(t.bookings) > 0 && t.bookings[0].date <= f.now {
		t.bookings = t.bookings[1:]
	}
}

// yield keeps the level, up to the date of each booking, below the room by what is booked from there on.
func (t *tokenBucket) yield(f *frame) {
	later := int64(0)
	for _, b := range slices.Backward(t.bookings) {
		later += b.permits
		us, rest := t.span(f, later, 0)
		if least := b.date + us; t.date < least || t.date == least && t.part < rest {
			t.date, t.part = least, rest
		}
	}
	t.measure(f)
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}}
	t.measure(f)
}

func (t *tokenBucket) retire(f *frame) {
	t.returned += t.full() - f.now
	us := int64(0)
	if t.level < f.share {
		var rest int64
		if us, rest = t.span(f, f.share-t.level, 0); rest > 0 {
			us++
		}
	}
	t.retireAt(f, f.now+us)
	t.bookings = nil
}

func (t *tokenBucket) reshape(f *frame) {
	if f.retired() {
		t.measure(f)
		return
	}
	had := t.level
	t.returned += t.full() - f.now
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

func (t *tokenBucket) receipt(*frame) int64        { return t.full() + t.returned }
func (t *tokenBucket) pace(*frame) (int64, int64)  { return 0, 0 }
func (t *tokenBucket) soonest(f *frame) int64      { return t.soonestBy(f, t.retry) }
func (t *tokenBucket) releases(f *frame) []Release { return t.releasesBy(f, t.retry) }

func (t *tokenBucket) retry(f *frame, n int64) int64 {
	if n > t.room {
		return -1
	}
	return t.wait(f, n)
}

func (t *tokenBucket) promise(f *frame, n, after int64) (us int64, room bool) {
	if us = t.retry(f, n); us >= 0 {
		us = max(us, after)
	}
	return us, f.share <= f.target && len(t.bookings) < mostBookings
}

func (t *tokenBucket) book(f *frame, n, us int64) (at int64) {
	t.move(f, n)
	at = t.receipt(f)
	if us > 0 {
		i := len(t.bookings)
		for i > 0 && t.bookings[i-1].date > f.now+us {
			i--
		}
		t.bookings = slices.Insert(slices.Clone(t.bookings), i, booking{f.now + us, at, n})
		t.yield(f) // the date was rounded up
	}
	return at
}

func (t *tokenBucket) booked(*frame) (sum int64) {
	for _, b := range t.bookings {
		sum += b.permits
	}
	return sum
}

// cancel takes n permits off the booking with this receipt, if there is one.
func (t *tokenBucket) cancel(n, at int64) {
	for i, b := range slices.Backward(t.bookings) {
		if b.receipt != at {
			continue
		}
		t.bookings = slices.Clone(t.bookings)
		if t.bookings[i].permits -= n; t.bookings[i].permits <= 0 {
			t.bookings = slices.Delete(t.bookings, i, i+1)
		}
		return
	}
}

func (t *tokenBucket) refund(f *frame, n, at int64) int64 {
	unused, had := at-t.returned-f.now, t.level
	if f.share == 0 || t.retired || unused <= 0 || unused > t.full()-f.now || t.returned > mostReturned {
		return 0
	}
	n = min(n, t.room-t.level)
	us, more := mulDiv(f.window, n, 0, f.share)
	if more > 0 {
		us++
	}
	if us <= unused {
		t.back(f, n)
	} else {
		us = unused
		t.date -= us
	}
	t.returned += us
	t.cancel(n, at)
	t.yield(f)
	return min(t.level-had, n)
}

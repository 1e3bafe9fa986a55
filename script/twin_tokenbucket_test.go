package script

import (
	"slices"

	"github.com/shardlimit/shardlimit/internal/columns"
)

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	since int64 // when grants are known from
	// the least that was missing before a grant, in this stretch of time and in those before it
	lows     [mostLows + 1]int64
	bookings []dated // what is booked ahead, by date; never changed in place, as copies of the state share it

	stock int64 // the permits in the bucket, reserved or not; found by look
}

func (t *tokenBucket) clone() rule {
	own := *t
	return &own
}

func (t *tokenBucket) text() string {
	text := columns.TokenBucket.Append(nil, 0, t.date, t.part, t.since)
	for _, n := range t.lows {
		text = columns.Low.Append(text, 0, n)
	}
	for _, b := range t.bookings {
		text = columns.Booking.Append(text, 0, b.at, b.n)
	}
	return string(text)
}

// look finds what is in the bucket: the level is what nobody needs.
func (t *tokenBucket) look(f *frame) {
	t.measure(f)
	t.stock, t.spare, t.reserved = t.level, far, 0
	for _, b := range t.bookings {
		t.reserved += b.n
		t.spare = min(t.spare, t.room-t.missing(f, b.at)-t.reserved)
	}
	t.level = min(t.stock, t.spare)
}

func (t *tokenBucket) advance(f *frame) {
	if f.target > 0 {
		lows := noLows
		if passed := f.stretches(f.touched); passed < int64(len(lows)) {
			copy(lows[passed:], t.lows[:])
		}
		t.lows = lows
	}
	for len(t.bookings) > 0 && t.bookings[0].at <= f.now {
		t.draw(f, t.bookings[0])
		t.bookings = t.bookings[1:]
	}
	t.look(f)
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

// draw takes permits out at an instant.
func (t *tokenBucket) draw(f *frame, b dated) {
	t.lows[0] = min(t.lows[0], max(t.missing(f, b.at)-1, 0)) // a part of a permit counts as one
	if t.full() <= b.at {
		t.date, t.part = b.at, 0
	}
	t.move(f, b.n)
}

func (t *tokenBucket) grant(f *frame, n int64) {
	t.draw(f, dated{f.now, n})
	t.stock, t.spare = t.stock-n, t.spare-n
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}, since: f.now, lows: noLows}
	t.look(f)
}

func (t *tokenBucket) reshape(f *frame) {
	had := t.stock // under the old rate
	t.since, t.lows, t.date, t.part = f.now+1, noLows, f.now, 0
	t.measure(f)
	if had < t.room && f.share > 0 {
		t.move(f, t.room-had)
	}
	t.look(f)
}

func (t *tokenBucket) ends(f *frame) int64 {
	if len(t.bookings) > 0 {
		return t.bookings[len(t.bookings)-1].at - f.now + f.window
	} else if t.level < f.share {
		us, _ := t.span(f, f.share-t.level, 0)
		return min(us+1, f.window)
	}
	return 0
}

func (t *tokenBucket) held(f *frame) int64 {
	if (f.target > 0 || f.burst == 0) && (t.level < 0 || len(t.bookings) > 0) {
		return f.share
	}
	return 0
}

func (t *tokenBucket) booked() bool                { return len(t.bookings) > 0 }
func (t *tokenBucket) pace(*frame) (int64, int64)  { return 0, 0 }
func (t *tokenBucket) reset(f *frame) int64        { return t.retry(f, t.room) }
func (t *tokenBucket) soonest(f *frame) int64      { return t.soonestBy(f, t.retry) }
func (t *tokenBucket) releases(f *frame) []Release { return t.releasesBy(f, t.retry) }

// behind returns the microseconds until n permits are in the bucket behind all that is booked.
func (t *tokenBucket) behind(f *frame, n int64) (us int64) {
	then := *t
	for _, b := range t.bookings {
		then.draw(f, b)
		us = b.at - f.now
	}
	then.level = n - 1 // they are not there at once
	return max(us, then.wait(f, n))
}

func (t *tokenBucket) retry(f *frame, n int64) int64 {
	switch {
	case n > t.room:
		return -1
	case n <= t.spare:
		return t.wait(f, n)
	}
	return t.behind(f, n)
}

func (t *tokenBucket) earliest(f *frame, n, after, kept int64) (us int64, room bool) {
	if n > t.room {
		return -1, false
	}
	kept = min(kept, t.room-n)
	if after > 0 || n+kept > t.level {
		us = max(after, t.behind(f, n+kept))
	}
	return us, f.share <= f.target && len(t.bookings) < mostBookings
}

func (t *tokenBucket) book(f *frame, n, us int64) (at int64) {
	if us == 0 {
		t.grant(f, n)
	} else {
		t.bookings = append(slices.Clone(t.bookings), dated{f.now + us, n})
		t.look(f)
	}
	return f.now + us
}

// cancel takes up to n permits off the bookings with this date, and returns how many.
func (t *tokenBucket) cancel(n, at int64) (canceled int64) {
	kept := t.bookings[:0:0]
	for _, b := range t.bookings {
		if b.at == at {
			gone := min(b.n, n-canceled)
			canceled, b.n = canceled+gone, b.n-gone
		}
		if b.n > 0 {
			kept = append(kept, b)
		}
	}
	t.bookings = kept
	return canceled
}

func (t *tokenBucket) refund(f *frame, n, at int64) (refunded int64) {
	if f.share == 0 || f.target == 0 || at < t.since {
		return 0
	}
	had := t.missing(f, f.now)
	if refunded = t.cancel(n, at); refunded == 0 && at <= f.now {
		t.regain(f, n, at)
		t.measure(f)
		refunded = min(n, had-t.missing(f, f.now))
	}
	t.look(f)
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

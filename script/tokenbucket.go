package script

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	since int64 // when grants are known from
	// the least that was missing before a grant, in this stretch of time and in those before it
	lows [mostLows + 1]int64

	due, crest, booked int64 // what is booked ahead: when the last of it is due
}

const (
	mostLacking = 9_999_999_999_999
	mostLows    = 8 // in so many stretches of time an empty bucket fills
)

func (t *tokenBucket) advance(f *frame) {
	if f.target > 0 {
		lows := noLows
		if passed := t.stretches(f, f.touched); passed < int64(len(lows)) {
			copy(lows[passed:], t.lows[:])
		}
		t.lows = lows
	}
	if t.booked > 0 {
		instant := min(f.now, t.due)
		t.booked -= f.lacks(t.booked-t.crest, t.due-instant)
		t.makeRoom(f, instant)
		t.lows[0] = 0 // what is booked needs room beside what is missing
		if t.due <= f.now {
			t.due, t.crest, t.booked = 0, 0, 0
		}
	}
	t.measure(f)
}

// lacks returns, of so many permits, what the bucket does not gain in the time.
func (f *frame) lacks(n, us int64) int64 {
	if float64(f.share)*float64(us)/float64(f.window) >= float64(n) {
		return 0
	}
	gained, _ := mulDiv(f.share, us, 0, f.window)
	return n - gained
}

// makeRoom is for what is booked, which is in the bucket at the instant: what had no room beside it
// has flowed over.
func (t *tokenBucket) makeRoom(f *frame, instant int64) {
	us, rest := t.span(f, t.booked, 0)
	if least := instant + us; t.date < least || t.date == least && t.part < rest {
		t.date, t.part = least, rest
	}
	t.measure(f)
}

// noLows is where nothing was granted.
var noLows = func() (lows [mostLows + 1]int64) {
	for i := range lows {
		lows[i] = mostLacking
	}
	return lows
}()

// stretches returns how many stretches of time ago an instant was.
func (t *tokenBucket) stretches(f *frame, at int64) int64 {
	stretch := int64(float64(f.window) * float64(f.burst) / float64(f.target) / mostLows)
	if stretch == 0 {
		return mostLows + 1
	}
	return f.now/stretch - at/stretch
}

func (t *tokenBucket) grant(f *frame, n int64) {
	t.lows[0] = min(t.lows[0], max(t.room-t.level-1, 0)) // a part of a permit counts as one
	t.move(f, n)
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}, since: f.now, lows: noLows}
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
	t.due, t.crest, t.booked = 0, 0, 0
}

func (t *tokenBucket) reshape(f *frame) {
	if f.retired() {
		t.measure(f)
		return
	}
	had := t.level // under the old rate
	t.leave(f)
	t.date, t.part = f.now, 0
	t.measure(f)
	if f.share > 0 {
		if had < t.room {
			t.move(f, t.room-had)
		}
		t.crest = t.booked // what is gained until it is due is another now
		t.makeRoom(f, f.now)
	}
}

func (t *tokenBucket) held(f *frame) int64 {
	if f.retired() {
		return t.ebb(f)
	}
	if t.level < 0 || t.booked > 0 {
		return f.share
	}
	return 0
}

func (t *tokenBucket) pace(*frame) (int64, int64)  { return 0, 0 }
func (t *tokenBucket) soonest(f *frame) int64      { return t.soonestBy(f, t.retry) }
func (t *tokenBucket) releases(f *frame) []Release { return t.releasesBy(f, t.retry) }

// retry: where there is no room beside what is booked, once that was used.
func (t *tokenBucket) retry(f *frame, n int64) int64 {
	if n > t.room {
		return -1
	}
	us := t.wait(f, n)
	if n+t.crest > t.room {
		longer, rest := t.span(f, n+t.crest-t.room, 0)
		us = max(us, t.due+longer+min(rest, 1)-f.now)
	}
	return us
}

func (t *tokenBucket) earliest(f *frame, n, after int64) (us int64, room bool) {
	if us = t.retry(f, n); us >= 0 {
		us = max(us, after, t.due-f.now) // no booking is due before an earlier one
	}
	return us, f.share <= f.target
}

func (t *tokenBucket) book(f *frame, n, us int64) (at int64) {
	t.grant(f, n)
	at = f.now + us
	if us > 0 {
		t.crest, t.booked, t.due = n+f.lacks(t.crest, at-t.due), t.booked+n, at
	}
	return at
}

func (t *tokenBucket) refund(f *frame, n, at int64) (refunded int64) {
	if f.share == 0 || f.target == 0 || at < t.since {
		return 0
	}
	had := t.level
	if at <= f.now {
		t.regain(f, n, at)
	} else if at <= t.due {
		canceled := min(n, t.booked)
		t.booked -= canceled
		t.crest = min(t.crest, t.booked)
		if t.booked == 0 {
			t.due = 0
		}
		t.back(f, canceled)
	}
	t.makeRoom(f, f.now)
	return min(n, t.level-had)
}

// regain puts back of n permits what would be in the bucket if they had not been granted, at least:
// tokenbucket.lua explains it.
func (t *tokenBucket) regain(f *frame, n, at int64) {
	least, last := n, t.stretches(f, at)
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

package script

// tokenBucket is the Go twin of tokenbucket.lua, which explains it.
type tokenBucket struct {
	bucket
	returned int64 // us of refill that refunds have taken off the date so far
}

const (
	manyReturned = 1_000_000_000_000_000
	mostReturned = 4 * manyReturned
)

func (t *tokenBucket) advance(f *frame) {
	t.measure(f)
	if t.level == t.room && t.returned > manyReturned { // receipts from before are larger than any to come
		t.returned = 0
	}
}

func (t *tokenBucket) begin(f *frame) {
	*t = tokenBucket{bucket: bucket{date: f.now}}
	t.measure(f)
}

func (t *tokenBucket) reshape(f *frame) {
	had := t.level
	t.returned += t.full() - f.now
	t.date, t.part = f.now, 0
	t.measure(f)
	if had < t.room && f.share > 0 {
		t.move(f, t.room-had)
	}
}

func (t *tokenBucket) held(f *frame) int64 {
	if t.level < 0 {
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

func (t *tokenBucket) refund(f *frame, n, at int64) int64 {
	ahead, had := at-t.returned-f.now, t.level
	if f.share == 0 || ahead <= 0 || ahead > t.full()-f.now || t.returned > mostReturned {
		return 0
	}
	n = min(n, t.room-t.level)
	us, more := mulDiv(f.window, n, 0, f.share)
	if more > 0 {
		us++
	}
	if us <= ahead {
		t.back(f, n)
	} else {
		us = ahead
		t.date -= us
	}
	t.returned += us
	t.measure(f)
	return min(t.level-had, n)
}
